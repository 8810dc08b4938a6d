#!/bin/sh
# Compute studies with several processes on one GPU; each takes the next cell that no other computes. For example,
#
#     sh benchmarks/share_gpu.sh 4 450 conv-resnet vgg5 --preset paper --work runs/reproduce
#
# starts four, which begin no cell after 450 seconds. A process that finds every cell taken asks again every five
# seconds, because runs with tuned rates can be known only when the tuning ends. What follows the two numbers goes to
# `python -m mupc.experiments run`.
processes=$1
end=$(($(date +%s) + $2))
shift 2

work() {
    while left=$((end - $(date +%s))) && [ "$left" -gt 0 ]; do
        code=0
        python3 -m mupc.experiments run "$@" --seconds-limit "$left" || code=$?
        [ "$code" -eq 1 ] || exit "$code" # 1: a cell failed, or another process computes it
        sleep 5
    done
}

nvidia-cuda-mps-control -d || exit # without it, processes take turns
for _ in $(seq "$processes"); do
    work "$@" &
done
wait
echo quit | nvidia-cuda-mps-control
