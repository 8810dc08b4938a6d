#!/bin/sh
# One sweep, shared by two workers of this machine: the same command twice. On several machines start it once on each, and
# add --storage with the address of a PostgreSQL database that all of them reach. Workers may join and leave at any time.
out=${1:-runs/workers}
sweep="mupc sweep --grid weight_lr=log:0.003:0.1:4 --grid seed=0,1 --validation 0.2 --epochs 1 --group 2 --out $out"
$sweep &
$sweep
wait
