#!/bin/bash
#SBATCH --job-name=mupc
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --time=01:00:00
# Train one run on all GPUs of two machines: mupc finds the other processes by itself. The folder must be on a shared disk.
srun mupc train --data mnist --hidden-layers 128 --width 512 --batch-size 1024 --devices 16 --out "$HOME/runs/$SLURM_JOB_ID"

# A sweep instead: each machine works by itself, on all of its GPUs, and a PostgreSQL database hands out the cells. Start it
# once with `mupc sweep --storage URL --name NAME --grid ...` on one machine; workers may join and leave at any time.
#   srun mupc sweep work --storage postgresql://USER@HOST:PORT/DATABASE --name NAME --devices 8
