#!/usr/bin/env bash
# job.sh TFDC TFD_RUN EXAMPLES - a job over a link prints what one process prints

tfdc=$1 run=$2 examples=$3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$tfdc" "$examples/linear.tfd" --devices cpu:0-3 -o "$out/plan.tfp" || exit 1

# What is said, and the exit status unless it is 0.  On a busy machine a process
# may be said to be slow.
job() {
  timeout 50 "$run" "$out/plan.tfp" --data "$examples" --checksum --threads 1 "$@" 2>&1 |
    grep -v 'note: rank .* is slow'
  local status=${PIPESTATUS[0]}
  [ "$status" -eq 0 ] || echo "exit status $status"
}

number=0
same() {
  number=$((number + 1))
  if [ "$said" = "$wanted" ]; then
    echo "ok $number - $*"
  else
    sed 's/^/# /' <<<"$said"
    echo "not ok $number - $*"
  fi
}

echo "1..8"
alone=$(job)
said=$(grep -o -e '^checksum ' -e '^exit status .*' <<<"$alone") wanted='checksum '
same "one process ends well"
wanted=$alone
for options in "-n 2 --link zmq" "-n 4 --link zmq" "-n 2 --link zmq --wire plain"; do
  said=$(job $options)
  same "$options"
done
if PATH=/usr/sbin:/sbin:$PATH ldconfig -p | grep -q libucp.so.0; then
  said=$(job -n 2 --link ucx)
  same "-n 2 --link ucx"
else
  number=$((number + 1))
  echo "ok $number - -n 2 --link ucx # SKIP there is no libucp.so.0 (Debian: libucx0)"
fi
wanted='unknown LINK "tcp" for --link; it is one of zmq, mpi, ucx'
said=$(job -n 2 --link tcp | grep -m 1 -o -- 'unknown LINK.*')
same "a link that there is not"
wanted='unknown WIRE "bare" for --wire; it is one of plain'
said=$(job -n 2 --wire bare | grep -m 1 -o -- 'unknown WIRE.*')
same "a wire that there is not"
wanted='TFD_ALL_REDUCE is gather, exchange, halving, doubling, hierarchy or not set, not "ring"'
said=$(TFD_ALL_REDUCE=ring job -n 2 --link zmq | grep -m 1 -o -- 'TFD_ALL_REDUCE.*')
same "an algorithm that there is not"
