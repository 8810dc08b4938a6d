#!/bin/sh
# One run of `mupc train` in two processes of this machine, with two CPU devices each. On two machines, start each line on
# its own one, with the name of the first in place of localhost, and --out on a disk that both see.
export XLA_FLAGS=--xla_force_host_platform_device_count=2
out=${1:-runs/processes}
run="mupc train --epochs 1 --out $out --coordinator localhost:${2:-12345} --processes 2"
$run --process-id 1 &
$run --process-id 0
wait
