#!/usr/bin/env bash
# mpi.sh LINK_RUN - collectives over each family of MPI that is here
#
# The launcher of a family starts processes of its own library: link_run finds it
# by what the launcher sets.

run=$1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
# The libraries' own leaks are theirs.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
number=0

over() {
  local launcher=$1 processes=$2 said
  number=$((number + 1))
  if ! command -v "$launcher" >/dev/null; then
    echo "ok $number - $launcher -n $processes # SKIP there is none here"
  elif [ "$launcher" = mpirun.mpich ] && grep -q __asan_init "$run"; then
    echo "ok $number - $launcher -n $processes # SKIP MPICH crashes under AddressSanitizer"
  elif said=$(timeout 50 "$launcher" -n "$processes" "$run" mpi 2>&1 </dev/null); then
    sed 's/^/# /' <<<"$said"
    echo "ok $number - $launcher -n $processes"
  else
    sed 's/^/# /' <<<"$said"
    echo "not ok $number - $launcher -n $processes"
  fi
}

echo "1..3"
over mpirun.openmpi 2
over mpirun.openmpi 4
over mpirun.mpich 2
