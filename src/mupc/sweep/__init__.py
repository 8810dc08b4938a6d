"""Many training runs: tuning on a small network for a large one (`mupc.transfer`), and sweeps."""
