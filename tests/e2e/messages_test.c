/*
 * messages_test.c - messages of the programs that the front end does not report
 */
#include "ir/base/str.h"
#include "tests/e2e/run.h"
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"

/* A program, and its message when it is compiled, or run. */
typedef struct Mistake {
    const char *program, *message;
    bool runs;
} Mistake;

static const Mistake mistakes[] = {
    {"dataset d = range(4).batch(2)\n"
     "fn step(x) {\n"
     "  assert(all(x < 2), \"x is {x}\")\n"
     "}\n"
     "main { for x in distribute(d) { run step(x) } }\n",
     "program.tfd:3:3: error: x is [2 3]\n", true},
    {"var w: f32 = 1.0\n"
     "fn inner(n) {\n"
     "  mut k = 0.0\n"
     "  for i in 0..n { k += w * w }\n"
     "  return k\n"
     "}\n"
     "fn step() { return grad(inner(i32(w)), w) }\n"
     "main { run step() }\n",
     "program.tfd:4:3: error: gradients go through a for only when its count "
     "is known when compiling\n"
     "    4 |   for i in 0..n { k += w * w }\n"
     "      |   ^~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
     "program.tfd:7:25: note: inner is called from here\n"
     "program.tfd:8:8: note: step is run from here\n",
     false},
    {"var w: f32 = 1.0\n"
     "var v: f32 = 1.0\n"
     "fn slopes() = grad(w * w, (w, v))\n"
     "main { run slopes() }\n",
     "program.tfd:3:15: warning: the loss does not depend on the variable "
     "\"v\": its gradient is zeros\n"
     "    3 | fn slopes() = grad(w * w, (w, v))\n"
     "      |               ^~~~~~~~~~~~~~~~~~~\n"
     "program.tfd:3:15: note: leave it out of the list, or use it in the "
     "loss; trainable() has none that is declared with trainable(false)\n"
     "program.tfd:4:8: note: slopes is run from here\n",
     false},
    {"strategy parameter_server\n"
     "var w: f32[4] = 1.0 partition(fixed(2))\n"
     "fn step() { merge () { update w { w = w / sum(w) } } }\n"
     "main { run step() }\n",
     "program.tfd:2:5: warning: \"w\" is not in parts, but whole on one "
     "server: an update of it needs more than a row at a time\n"
     "    2 | var w: f32[4] = 1.0 partition(fixed(2))\n"
     "      |     ^\n"
     "program.tfd:3:43: note: here\n"
     "program.tfd:4:8: note: step is run from here\n",
     false},
    {"dataset d = range(5).map(fn(i) = f32(i)).batch(4)\n"
     "fn spread(v) {\n"
     "  let gaps = abs(v[:, none] - v)\n"
     "  return exp(gaps)\n"
     "}\n"
     "fn step(v) = spread(v)\n"
     "main { for v in distribute(d) { print(run step(v)) } }\n",
     "program.tfd:3:18: error: a value of shape [n, n] cannot be stored: two "
     "of its lengths are those of batches, which may have fewer rows than "
     "others\n"
     "    3 |   let gaps = abs(v[:, none] - v)\n"
     "      |                  ^~~~~~~~~~~~~~\n"
     "program.tfd:3:18: note: give all batches one length, with "
     "distribute_from(fn(ctx) = data.batch(ctx.per_replica_batch_size(n), "
     "drop_remainder = true))\n"
     "program.tfd:6:14: note: spread is called from here\n"
     "program.tfd:7:39: note: step is run from here\n",
     false},
    {"const TABLE = [2.0, 3.0, 5.0]\n"
     "dataset d = range(7).map(fn(i) = stack(TABLE)[i]).batch(2)\n"
     "main { for x in distribute(d) { print(\"{reduce(sum, x, axis = 0)}\") } "
     "}\n",
     "program.tfd:2:47: index 3 of an axis that has 3, "
     "numbered from 0\n",
     true},
    {"const TABLE = [2.0, 3.0, 5.0]\n"
     "dataset d = range(7).filter(fn(i) = stack(TABLE)[i - 4] > 2.5).batch(2)\n"
     "main { for x in distribute(d) { print(\"{reduce(sum, x, axis = 0)}\") } "
     "}\n",
     "program.tfd:2:50: index -4 of an axis that has 3, "
     "numbered from 0\n",
     true},
    {"fn hot(i) {\n"
     "  mut x = zeros((3,))\n"
     "  x[[i, 0]] = 1.0\n"
     "  return x\n"
     "}\n"
     "dataset d = range(7).map(hot).batch(2).prefetch(0)\n"
     "main { for x in distribute(d) { print(\"{reduce(sum, x, axis = 0)}\") } "
     "}\n",
     "program.tfd:3:5: there are indices from 0 to 3, and the axis has 3, "
     "numbered from 0\n",
     true},
    {"param rate: f32 = 1.0\n"
     "main { print(\"{dropout([1.0, 2.0], rate)}\") }\n",
     "program.tfd:2:16: error: a rate of dropout is from 0 up to but not 1\n",
     true},
    {"var rates: f32[2] = [0.5, -0.5]\n"
     "main { print(\"{dropout([1.0, 2.0], rates)}\") }\n",
     "program.tfd:2:16: error: a rate of dropout is from 0 up to but not 1\n",
     true},
    {"param k: i64 = 3\n"
     "main { print(\"{one_hot(k, 3)}\") }\n",
     "program.tfd:2:24: error: there is a label 3, and 3 classes, numbered "
     "from 0: write at least one_hot(k, 4) in line 2, or correct the labels\n",
     true},
    {"var w: f32[4] = zeros\n"
     "param k: i64 = 9\n"
     "main { print(\"{w[[k, 1]]}\") }\n",
     "program.tfd:3:18: error: there are indices from 1 to 9, and the axis of "
     "\"w\" has 4, numbered from 0: write at least f32[10] in line 1, or "
     "correct the "
     "index\n",
     true},
    {"param k: i64 = -1\n"
     "main { print(\"{one_hot(k, 3)}\") }\n",
     "program.tfd:2:24: error: there is a label -1, and 3 classes, numbered "
     "from 0: correct the labels, which count from 0\n",
     true},
    {"var w: f32[4] = zeros\n"
     "param k: i64 = 9223372036854775807\n"
     "main { print(\"{w[k]}\") }\n",
     "program.tfd:3:18: error: index 9223372036854775807 of an axis of \"w\" "
     "that has 4, numbered from 0\n",
     true},
    {"var w: f32[4] = zeros\n"
     "param k: i64 = 9\n"
     "main { print(\"{w[k]}\") }\n",
     "program.tfd:3:18: error: index 9 of an axis of \"w\" that has 4, "
     "numbered from 0: write at least f32[10] in line 1, or correct the "
     "index\n",
     true},
    {"var w: f32 = 0.0\n"
     "main { save(\"\") }\n",
     "program.tfd:2:8: error: cannot make the folder \"\"", true},
    {"main { save(\"here\") }\n",
     "program.tfd:1:8: error: the program has no variable to save\n", false},
    {"var w: f32 = 1.0\n"
     "fn step() {\n"
     "  mut x = w\n"
     "  for i in 0..70000 { x = x * w }\n"
     "  return grad(x, w)\n"
     "}\n"
     "main { run step() }\n",
     "program.tfd:4:3: error: gradients through 70000 iterations: at most "
     "65536 "
     "are unrolled\n"
     "    4 |   for i in 0..70000 { x = x * w }\n"
     "      |   ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
     "program.tfd:4:3: note: --limit unroll=N allows more\n",
     false},
    {"var w: f32 = 1.0\n"
     "var k: i64 = 3\n"
     "fn step() {\n"
     "  mut x = w\n"
     "  for i in 0..k { x = x * w; w -= grad(x, w) }\n"
     "}\n"
     "main { run step() }\n",
     "program.tfd:5:35: error: the loss depends on x, which the loop around "
     "this grad carries from one iteration to the next\n",
     false},
    {"var w: f32 = 1.0\n"
     "var k: i64 = 3\n"
     "fn step() {\n"
     "  mut l = 0.0\n"
     "  for i in 0..k { l += 2.0 * w; w -= grad(l, w) }\n"
     "}\n"
     "main { run step() }\n",
     "program.tfd:5:38: error: the loss depends on l, which the loop around "
     "this grad carries from one iteration to the next\n",
     false},
    {"strategy parameter_server\n"
     "var v: f32 = 0.0\n"
     "fn own() = f32(replica_id)\n"
     "fn lower() {\n"
     "  let x = run own()\n"
     "  update v {\n"
     "    assert(x >= 0.0, \"{x} is below\")\n"
     "    v -= 1.0\n"
     "  }\n"
     "}\n"
     "main { schedule lower() }\n",
     "program.tfd:6:3: error: servers make this update of \"v\", and it takes "
     "a "
     "value that each replica has of its own\n"
     "    6 |   update v {\n"
     "      |   ^~~~~~~~~~\n"
     "program.tfd:6:3: note: combine them before it: reduce_to(sum, ..., v)\n"
     "program.tfd:11:8: note: lower is scheduled from here\n",
     false},
    /* in the test of a while, which yields another number of values */
    {"var w: f32 = 1.0\n"
     "fn step() {\n"
     "  mut a = w * 2.0\n"
     "  mut k = 0\n"
     "  while grad(a * w, w) > 0.5 max 5 {\n"
     "    a = a * 0.5\n"
     "    k = k + 1\n"
     "  }\n"
     "}\n"
     "main { run step() }\n",
     "program.tfd:5:9: error: the loss depends on a, which the loop around "
     "this grad carries from one iteration to the next\n",
     false},
    {"var w: f32[4] = ones\n"
     "fn step() {\n"
     "  mut x = w\n"
     "  x[[0, 1]] *= 2.0\n"
     "  return grad(sum(x), w)\n"
     "}\n"
     "main { run step() }\n",
     "program.tfd:4:16: error: no gradient through rows changed by mul\n",
     false},
    {"var w: f32 = 2.0\n"
     "fn step() {\n"
     "  let y = all_reduce(max, w * f32(replica_id))\n"
     "  if replica_id > 0 { print(\"{grad(y * y, w)}\") }\n"
     "}\n"
     "main { run step() }\n",
     "program.tfd:4:31: error: the gradient goes through all_reduce, which "
     "needs all replicas, and under this \"if\" not all may come to it\n",
     false},
    {"var w: f32[4] = ones\n"
     "main {\n"
     "  let x = broadcast_to(w * 2.0, w)\n"
     "  let g = grad(sum(x), w)\n"
     "}\n",
     "program.tfd:3:11: error: there is no gradient through broadcast_to\n",
     false},
    {"var w: f32[4] = ones\n"
     "dataset d = range(8).batch(4)\n"
     "fn step(x) {\n"
     "  mut y = w\n"
     "  y[reshape(x, (len(x), 1)) * reshape(x, (1, len(x)))] = 2.0\n"
     "  return grad(sum(y), w)\n"
     "}\n"
     "main { for x in distribute(d) { run step(x) } }\n",
     "error: no gradient through rows of two batches\n", false},
    {"main {\n"
     "  let it = iter(distribute(range(4).batch(4)))\n"
     "  let (one, two) = (next(it), next(it))\n"
     "}\n",
     "program.tfd:3:31: error: \"next\" finds no more elements: a loop over "
     "all of them is while has_next(it) { ... }\n",
     true},
    {"strategy parameter_server\n"
     "fn work(it) = reduce(sum, next(it), axis = 0)\n"
     "main {\n"
     "  let it = iter(per_worker(tensors([1, 2]).batch(2)))\n"
     "  for i in 0..2 { schedule work(it) }\n"
     "}\n",
     "program.tfd:2:27: error: \"next\" finds no more elements on the workers: "
     "schedule as many closures as there are, or give the dataset "
     ".repeat()\n",
     true},
    {"strategy mirrored(devices = \"cpu:0-2\", cross_device_ops = "
     "\"hierarchical_copy\")\n"
     "main { }\n",
     "error: hierarchical_copy needs an even number of devices, and there are "
     "3\n",
     false},
    {"strategy mirrored(devices = \"cpu:0-1\")\n"
     "strategy mirrored(devices = \"cpu:0-1\")\n"
     "main { }\n",
     "program.tfd:2:10: error: a program has one strategy, and this is the "
     "second\n",
     false},
    {"strategy one_device(devices = \"cpu:0-1\")\n"
     "main { }\n",
     "error: the strategy one_device is for one device, and there are 2\n",
     false},
    {"strategy mirrored(devices = \"cpu:0-1\", workers = 2)\n"
     "main { }\n",
     "error: only the strategy multi_worker_mirrored has workers\n", false},
    {"strategy mirrored(devices = \"cpu:0;cpu:0\")\n"
     "main { }\n",
     "error: only the strategy multi_worker_mirrored has workers\n", false},
    {"strategy multi_worker_mirrored(devices = \"cpu:0-1\", workers = 0)\n"
     "main { }\n",
     "error: a plan is for 1 to 1024 replicas, not for 0 workers with 2 "
     "devices each\n",
     false},
    {"strategy multi_worker_mirrored(workers = 4611686018427387905)\n"
     "main { }\n",
     "error: a plan is for 1 to 1024 replicas, not for 4611686018427387905 "
     "workers with 1 device each\n",
     false},
    {"strategy multi_worker_mirrored(devices = \"cpu:0-1;cpu:0\")\n"
     "main { }\n",
     "error: worker 1 has 1 device, and worker 0 has 2: all workers have "
     "equally many\n",
     false},
    {"strategy multi_worker_mirrored(devices = \"cpu:0;cpu:1\")\n"
     "main { }\n",
     "error: worker 1 has cpu:1, and worker 0 has cpu:0: devices have the same "
     "names on all workers\n",
     false},
    {"strategy multi_worker_mirrored(devices = \"cpu:0;cpu:0\", workers = 3)\n"
     "main { }\n",
     "error: there are 3 workers, and lists of devices for 2\n", false},
    {"strategy multi_worker_mirrored(workers = 2)\n"
     "main {\n"
     "  let it = iter(distribute_from(fn(ctx) = range(4), pipelines = "
     "per_replica))\n"
     "}\n",
     "error: the strategy multi_worker_mirrored has a pipeline for each "
     "worker, and none for each replica\n",
     false},
};

/* A shell command in a folder with ok.tfd, its plan ok.tfp and steps.tfp, which
 * reads a dataset; and its message. */
static const struct {
    const char *line, *message;
    int code;
} refusals[] = {
    {"tfdc ok.tfd --devices cpu:3-1", "cpu:3-1 ends before it begins", 2},
    {"tfdc ok.tfd --devices 'cpu:*'",
     "cpu:* depends on the machine: name the devices", 2},
    {"tfdc ok.tfd --devices cpu:0-x", "\"cpu:0-x\" is no range: cpu:0-3", 2},
    {"tfdc ok.tfd --devices tpu:0",
     "\"tpu:0\" is no device: cpu:0, cpu:0-3, cuda:0", 2},
    {"tfdc ok.tfd --devices cpu:0,cpu:0", "cpu:0 is there twice", 2},
    {"tfdc ok.tfd --devices cpu:0-1024",
     "a plan is for at most 1024 devices, and 1025 are asked for", 2},
    {"tfdc ok.tfd --devices cpu:0-99999999999",
     "a plan is for at most 1024 devices, and 100000000000 are asked for", 2},
    {"tfdc ok.tfd --devices cpu:0-1023,cuda:0 --to ir",
     "a plan is for at most 1024 devices, and 1025 are asked for", 2},
    {"tfdc ok.tfd --devices cpu:1024",
     "cpu:1024 is no device: their numbers are from 0 to 1023", 2},
    {"tfdc ok.tfd --cross-device-ops some",
     "there is no cross-device operation \"some\": it is one of auto", 2},
    {"tfdc ok.tfd --cross-device-ops nccl:some",
     "there is no cross-device operation \"nccl:some\": it is one of auto", 2},
    {"tfdc ok.tfd --cross-device-ops hierarchical_copy:packs=x",
     "\"packs=x\" is no packs=N with N from 0 to 1048576", 2},
    {"tfdc ok.tfd --cross-device-ops hierarchical_copy:some",
     "behind \"hierarchical_copy:\" stands packs=, not \"some\"", 2},
    {"tfdc ok.tfd --cross-device-ops reduction_to_one:cpu:1",
     "behind \"reduction_to_one:\" stands reduce_to_device= or "
     "accumulation_fn=, not \"cpu:1\"",
     2},
    {"tfdc ok.tfd --cross-device-ops reduction_to_one:reduce_to_device=cpu:0-1",
     "reduce_to_device is one device, as cpu:1, not \"cpu:0-1\"", 2},
    {"tfdc ok.tfd --devices cpu:0-1 --cross-device-ops "
     "reduction_to_one:reduce_to_device=cpu:7",
     "reduce_to_device is cpu:7, which is none of the strategy's devices", 2},
    {"tfdc ok.tfd --cross-device-ops reduction_to_one:accumulation_fn=mean",
     "accumulation_fn is add_n, which adds in the order of all sums over "
     "replicas, not \"mean\": write another one in a merge, of local_results",
     2},
    {"tfdc ok.tfd --devices cpu:0-1 --parameter-device cpu:0",
     "only the strategy central_storage has a parameter_device", 2},
    {"tfdc ok.tfd --devices cpu:0-2 --strategy central_storage "
     "--parameter-device cpu:0-1",
     "parameter_device is one device, as cpu:0, not \"cpu:0-1\"", 2},
    {"tfdc ok.tfd --devices cpu:0-2 --strategy central_storage "
     "--parameter-device cpu:3",
     "parameter_device is cpu:3, which is none of the strategy's devices", 2},
    {"tfdc ok.tfd --cross-device-ops nccl:packs=2", "nccl makes no packs", 2},
    {"tfdc ok.tfd --strategy one_device --cross-device-ops ring",
     "the strategy one_device has one replica, so that no cross-device "
     "operation has an effect",
     2},
    {"tfdc ok.tfd --cross-device-ops reduction_to_one:packs=2",
     "reduction_to_one makes no packs", 2},
    {"tfdc steps.tfd --target x86-64-v3 -o v3.tfp && tfd-run v3.tfp --devices "
     "cuda:0",
     "cannot run \"v3.tfp\": its code is for x86-64-v3, and none of it for "
     "GPUs; tfdc --target x86-64-v3,sm_80 makes a plan that fits",
     1},
    {"tfdc ok.tfd --target sm_80,sm_90",
     "--target sm_80,sm_90 has no code for main, which runs on the host: "
     "--target native,sm_80,sm_90 has",
     2},
    {"tfdc ok.tfd --devices cuda:0 --target native",
     "--target native has no code for cuda:0: --target native,sm_80 has", 2},
    {"tfdc ok.tfd --devices cpu:0,cuda:0",
     "no run has both kinds of devices of cpu:0,cuda:0, since replicas execute "
     "collectives together",
     2},
    {"tfdc ok.tfd --dump-phases ok.tfd/x",
     "cannot make the folder \"ok.tfd\": Not a directory", 1},
    {"tfdc ok.tfd --collectives packs=3",
     "--collectives knows bytes_per_pack and timeout_seconds, not \"packs\"",
     2},
    {"tfdc ok.tfd --collectives timeout_seconds=-1",
     "timeout_seconds is a number from 0 to 1e+09, not \"-1\"", 2},
    {"tfdc ok.tfd --explain --to ir",
     "--explain prints, and so does --to: give one", 2},
    {"tfdc ok.tfd --explain -o -",
     "--explain prints to standard output: give the plan a file, not -o -", 2},
    {"tfdc ok.tfd --from ir --to ast", "--to ast needs a program", 2},
    {"tfdc ok.tir --from ir --devices cpu:0-1",
     "--devices has no effect beside --from ir, whose text has it already: "
     "compile the program with it",
     2},
    {"tfdc ok.tfd --to placed > ok.tir && "
     "tfdc ok.tir --from placed --collectives timeout_seconds=9",
     "--collectives has no effect beside --from placed, whose text has it "
     "already: compile the program with it",
     2},
    {"tfdc ok.tir --from placed --check-nan",
     "--check-nan has no effect beside --from placed, whose text has it "
     "already",
     2},
    {"tfdc ok.tir --from placed --precision tf32",
     "--precision has no effect beside --from placed", 2},
    {"tfdc ok.tir --from placed --print-after all",
     "--print-after has no effect beside --from placed", 2},
    {"tfdc ok.tfd --dump-phases between && "
     "tfdc between/20-schedule.tir --from ir --collectives timeout_seconds=9",
     "--collectives has no effect beside --from ir", 2},
    {"tfdc between/13-bucket.tir --from ir --collectives bytes_per_pack=9",
     "--collectives has no effect beside --from ir", 2},
    {"tfdc between/18-fuse.tir --from ir --check-nan",
     "--check-nan has no effect beside --from ir", 2},
    {"tfdc between/18-fuse.tir --from ir --print-after simplify",
     "--print-after has no effect beside --from ir", 2},
    {"tfdc ok.tfd --to kernels > ok.kernels && "
     "tfdc ok.kernels --from kernels --to ptx --precision tf32",
     "--precision has no effect beside --from kernels", 2},
    {"tfdc ok.tir --from placed -D N=2",
     "-D has no effect beside --from placed, whose text has it already: "
     "compile the program with it",
     2},
    {"tfdc ok.tfd --passes fold",
     "--passes: there is no pass \"fold\"; there are static_batches, "
     "partial_sort, differentiate, simplify, ",
     2},
    {"tfdc ok.tfd --expand",
     "--expand is for a printed program: add --to placed", 2},
    {"tfdc ok.tfd --expand --to asm", "--expand is for a printed program", 2},
    {"tfdc ok.tfd --passes simplify --to ast",
     "--to ast ends before the first pass: leave --passes out", 2},
    {"tfdc ok.tfd --print-after simplify --to ir",
     "--to ir ends before the first pass: leave --print-after out", 2},
    {"tfdc ok.tfd --to ast --devices tpu:0", "\"tpu:0\" is no device", 2},
    {"tfdc ok.tfd --to ast --devices 'cpu:0;tpu:0'", "\"tpu:0\" is no device",
     2},
    {"tfdc ok.tfd --to ast --parameter-device cpu:0-1",
     "parameter_device is one device", 2},
    {"tfdc ok.tfd --to ir --target arm", "unknown target \"arm\"", 2},
    {"tfdc ok.tfd --to ast -D N", "-D needs NAME=VALUE, not \"N\"", 2},
    {"tfdc ok.tfd --passes allocate",
     "allocate cannot be run on this program, which is as the front end makes "
     "it\nok.tfd: note: it is for a program that is between communicate and "
     "allocate",
     1},
    {"tfdc ok.tfd --passes simplify --to llvm",
     "--passes leaves a program that is not placed, which can be printed alone",
     2},
    {"tfdc ok.tfd --passes simplify --explain",
     "--passes leaves a program that is not placed, which can be printed alone",
     2},
    {"tfdc ok.tfd --to ir > ok.tir && "
     "sed -i '1s/$/ after noon/' ok.tir && tfdc --from ir ok.tir",
     "there is no pass \"noon\" that this can be after", 1},
    {"tfdc ok.tfd --to ptx --target sm_80,sm_90",
     "--to ptx prints the code for one GPU, as --target sm_80, not for "
     "sm_80,sm_90",
     2},
    {"tfdc ok.tfd --target arm", "unknown target \"arm\"; there are native", 2},
    {"tfdc --to kernels ok.tfd -o ok.kernels && tfdc --from kernels ok.kernels",
     "kernels alone are no plan; use --to kernels, llvm, asm or ptx", 2},
    {"tfdc --to ir ok.tfd > /dev/full",
     "cannot write standard output: No space left on device", 3},
    {"TFD_FAIL=sometimes tfdc ok.tfd",
     "TFD_FAIL is alloc:N, io:N or thread:N with N from 1, not \"sometimes\"",
     2},
    {"TFD_FAIL=alloc:1 tfdc ok.tfd", "error: out of memory: ", 3},
    {"ulimit -S -v 137438953472; TFD_FAIL=alloc:1 tfdc ok.tfd",
     "of addresses that it may have (ulimit -v) are in use", 3},
    {"mkdir -m 777 open; TFD_CACHE=open tfdc ok.tfd -o open.tfp && false",
     "warning: the cache \"open\" is not used: others may write to the folder",
     1},
    {"TFD_MEMORY=99999999999999999999 tfd-run ok.tfp",
     "TFD_MEMORY is a number of megabytes, of at most 12 digits, or 0 for no "
     "limit, and not \"99999999999999999999\"",
     2},
    {"TFD_MEMORY=-5 tfd-run ok.tfp", "for no limit, and not \"-5\"", 2},
    {"tfd-run ok.tfp --resolve --timeout 0", "--timeout needs a number", 2},
    {"tfd-run ok.tfp --resolve --devices tpu:0", "\"tpu:0\" is no device", 2},
    {"tfd-run ok.tfp --resolve -n 0",
     "--processes needs a whole number from 1 to 4096, not \"0\"", 2},
    {"tfd-run ok.tfp --resolve -n workers", "-n workers: ", 2},
    {"tfd-run ok.tfp --resolve --restarts 1", "--restarts needs -n N", 2},
    {"tfd-run --status 7 --key k",
     "--key has no effect beside --status 7: the parent of the job tells its "
     "key; leave it out",
     2},
    {"tfd-run --status 99999999999999999999",
     "--status needs a whole number from 1 to 2147483647", 2},
    {"tfd-run ok.tfp --quiet --progress=always",
     "--quiet and --progress=always contradict each other", 2},
    {"tfd-run ok.tfp --quiet --stats",
     "--quiet and --stats contradict each other", 2},
    {"tfd-run ok.tfp --resume", "--resume needs --checkpoint DIR", 2},
    {"tfd-run ok.tfp --restarts 1 --checkpoint d", "--restarts needs -n N", 2},
    {"tfd-run ok.tfp -n 1 --restarts 1", "--restarts needs --checkpoint DIR",
     2},
    {"tfd-run ok.tfp -n 1 --min-processes 1",
     "--min-processes needs --restarts N", 2},
    {"tfd-run ok.tfp -n 1 --min-processes 2 --restarts 1 --checkpoint d",
     "--min-processes is at most the 1 of -n", 2},
    {"tfd-run ok.tfp -n workers=2,ps=1",
     "-n workers=2,ps=1 is for plans of strategy parameter_server, and this "
     "one's is default: -n 1",
     2},
    {"tfd-run ok.tfp --tasks workers=2,ps=1",
     "--tasks is for plans of strategy parameter_server, and this one's is "
     "default",
     2},
    {"tfd-run ok.tfp --resolve --serve ps:0",
     "--serve is for plans of strategy parameter_server", 2},
    {"tfdc ok.tfd --strategy parameter_server -o ps.tfp && "
     "tfd-run ps.tfp -n 5",
     "-n 5: a plan of strategy parameter_server has a coordinator, servers and "
     "workers, so -n workers=3,ps=1 says how many of each",
     2},
    {"tfd-run ps.tfp -n 99999999999999",
     "--processes needs a whole number from 1 to 4096, not \"99999999999999\"",
     2},
    {"timeout 10 \"$TFD_RUN\" ps.tfp --local-cluster workers=2,ps=1 --silence "
     "0",
     "tfd-run: error: --silence needs a number from 0.5 to 1e+06, not \"0\"\n",
     2},
    {"timeout 10 \"$TFD_RUN\" ps.tfp --local-cluster workers=2,ps=1 --devices "
     "x",
     "\"x\" is no device", 2},
    {"tfd-run ps.tfp -n workers=2,ps=1 --join h:1",
     "--join is for a process that is started alone, and -n starts all of "
     "them",
     2},
    {"tfd-run ok.tfp --key k",
     "--key has no effect here: nothing says that this process is one of a "
     "job, so it runs the plan alone; leave it out, or start a job: -n N does "
     "it on this machine",
     2},
    {"tfd-run ps.tfp --atomic",
     "--atomic has no effect here: nothing says that this process is one of a "
     "job, so it runs the plan alone; leave it out, or start a job: -n "
     "workers=3,ps=2 does it on this machine",
     2},
    {"tfd-run ok.tfp --join h:1", "--join has no effect here", 2},
    {"tfd-run ok.tfp --link zmq", "--link has no effect here", 2},
    {"tfd-run ok.tfp --mpi m", "--mpi has no effect here", 2},
    {"tfd-run ok.tfp --wire plain", "--wire has no effect here", 2},
    {"tfd-run ok.tfp --silence 9", "--silence has no effect here", 2},
    {"tfd-run ok.tfp --diagnose d", "--diagnose has no effect here", 2},
    {"tfd-run ps.tfp --staleness 1", "--staleness has no effect here", 2},
    {"tfd-run ps.tfp --metrics 0", "--metrics has no effect here", 2},
    {"tfd-run ok.tfp --staleness 1",
     "--staleness is for plans of strategy parameter_server, and this one's is "
     "default",
     2},
    {"tfd-run ok.tfp --atomic", "--atomic is for plans of strategy", 2},
    {"tfd-run ok.tfp --sync 3/4", "--sync is for plans of strategy", 2},
    {"tfd-run ok.tfp --placement turn", "--placement is for plans of", 2},
    {"tfd-run ok.tfp -n 1 --metrics 0", "--metrics is for plans of", 2},
    {"tfd-run ok.tfp --rank 0 --size 1 --listen h:1",
     "--listen is for plans of strategy parameter_server", 2},
    {"tfd-run ok.tfp -n 1 --rank 0 --size 1",
     "--rank is for a process that is started alone", 2},
    {"tfd-run ok.tfp -n 1 --key k",
     "--key is for a process that is started alone", 2},
    {"tfd-run ok.tfp -n 1 --mpi m",
     "--mpi is for a process that is started alone", 2},
    {"tfd-run ok.tfp -n 1 --wire plain",
     "--wire is how data goes over zmq, and here it goes over memory: give "
     "--link zmq, or leave --wire out",
     2},
    {"tfd-run ok.tfp --rank 0 --size 1 --link mpi --wire plain",
     "here it goes over mpi", 2},
    {"tfd-run ok.tfp --rank 0 --size 1 --key k --join h:1 --link zmq --wire "
     "plain --silence 9 --diagnose d >&2",
     "hi\n", 0},
    {"tfd-run ok.tfp -n 1 --link mpi",
     "--link mpi is for processes that MPI's launcher has started, and -n is "
     "another one: mpirun -n 1 tfd-run starts them, or leave --link out",
     2},
    {"tfd-run --status foo",
     "--status: \"foo\" is no HOST:PORT, and no process id of the tfd-run -n "
     "that is asked",
     2},
    {"TF_CONFIG={} tfd-run ok.tfp --task worker:0 --key k >&2", "hi\n", 0},
    {"tfd-run ok.tfp --task worker:0",
     "--task worker:0 is one of a cluster's tasks, and there is no cluster: "
     "give --cluster FILE, or set TF_CONFIG",
     2},
    {"tfd-run ps.tfp --task worker:0", "there is no cluster", 2},
    {"tfd-run ps.tfp -n workers=2,ps=1 --link zmq",
     "--link is for jobs of equal processes, and this plan's are tasks: tasks "
     "send over zmq",
     2},
    {"tfd-run ps.tfp -n workers=2,ps=1 --wire plain",
     "--wire is for jobs of equal processes, and this plan's are tasks: tasks "
     "that have a key encrypt",
     2},
    {"tfd-run ps.tfp -n workers=2,ps=1 --diagnose d",
     "--diagnose is for jobs of equal processes, and this plan's are tasks: "
     "tasks execute no collectives; --status says what they do",
     2},
    {"tfd-run ps.tfp --local-cluster workers=2,ps=1 --staleness 1",
     "--local-cluster and --staleness contradict each other", 2},
    {"tfd-run ps.tfp -n workers=2,ps=1 --checkpoint d --restarts 3 "
     "--min-processes 1",
     "--min-processes is for jobs of equal processes", 2},
    {"tfd-run ps.tfp -n workers=2,ps=1 --preflight",
     "--preflight is for jobs of equal processes", 2},
    {"tfd-run ok.tfp --every 3", "--every needs --checkpoint DIR", 2},
    {"tfd-run ok.tfp --checkpoint d",
     "--checkpoint: main has no loop over a dataset, nor one that joins "
     "closures, and checkpoints are made after iterations of these",
     2},
    {"tfd-run steps.tfp --checkpoint seeds --seed 1 && "
     "tfd-run steps.tfp --checkpoint seeds --resume --seed 2",
     "--seed: the run in \"seeds\" was begun with another value; leave it "
     "out, or begin anew in another folder",
     2},
    {"sed 's/print(/summary(\"a\", 1.0, 1); print(/' steps.tfd > logs.tfd && "
     "tfdc logs.tfd && "
     "tfd-run logs.tfp --checkpoint logs --log-dir logs.d --every 1 && "
     "sed -i s,events.out,event/.out, logs/*.ckpt && "
     "TFD_CHECKSUMS=0 tfd-run logs.tfp --checkpoint logs --log-dir logs.d "
     "--resume",
     " is no name of a file", 1},
    {"sed -i s,event/.out,prices.out, logs/*.ckpt && "
     "TFD_CHECKSUMS=0 tfd-run logs.tfp --checkpoint logs --log-dir logs.d "
     "--resume",
     " is no name of a file of events", 1},
    {"tfd-run bools.tfp && printf '\\002' | dd of=b/variables.safetensors "
     "bs=1 seek=$(($(stat -c %s b/variables.safetensors) - 1)) conv=notrunc "
     "2> dd.log; TFD_CHECKSUMS=0 tfd-run restores.tfp",
     "\"w\" has a bool that is neither true nor false", 1},
    {"tfd-run ok.tfp --devices cpu:0,cpu:0", "cpu:0 is there twice", 2},
    {"printf 'var w: f32 = 0.0\nmain { save(\"on\"); while w >= 0.0 { w += 1.0 "
     "} "
     "}' > spins.tfd && tfdc spins.tfd && { \"$TFD_RUN\" spins.tfp & } && "
     "until [ -e on/variables.safetensors ]; do sleep 0.05; done; "
     "kill -TERM $!; wait $!",
     "interrupted after 0 steps", 130},
    {"printf 'var w: f32[400000] = zeros\nmain { w += 1.0; "
     "print(\"{w[0]}\") }' > large.tfd && tfdc large.tfd && "
     "TFD_MEMORY=4 tfd-run large.tfp",
     "cannot run \"large.tfp\": it needs 4.800 MB of memory, and there are "
     "4.194 MB (TFD_MEMORY); 3.200 MB are for 1 device, 1.600 for main, 0.000 "
     "for data, 0.000 for a checkpoint: compile it with smaller batches "
     "(TFD_MEMORY=0 runs it all the same)\n"
     "large.tfd:1:5: note: 1.600 MB of each device are the variable \"w\"\n",
     3},
    {"TFD_MEMORY=8 tfd-run large.tfp >&2 && TFD_MEMORY=0 tfd-run large.tfp "
     ">&2",
     "1.0\n1.0\n", 0},
    {"tfdc large.tfd --devices cpu:0-3 && TFD_MEMORY=13 tfd-run large.tfp",
     "it needs 14.400 MB of memory, and there are 13.631 MB (TFD_MEMORY); "
     "12.800 MB are for 4 devices, 1.600 for main, 0.000 for data, 0.000 for a "
     "checkpoint: tfd-run --devices cpu:0-1 needs 8.000 MB, to the same bits; "
     "or compile it with smaller batches (TFD_MEMORY=0 runs it all the same)\n",
     3},
    {"TFD_MEMORY=4 tfd-run large.tfp",
     "0.000 for data, 0.000 for a checkpoint: compile it for fewer devices or "
     "with smaller batches (TFD_MEMORY=0 runs it all the same)\n",
     3},
    {"TFD_MEMORY=7 tfd-run large.tfp --devices cpu:3,cpu:1",
     "it needs 8.000 MB of memory, and there are 7.340 MB (TFD_MEMORY); 6.400 "
     "MB are for 2 devices, 1.600 for main, 0.000 for data, 0.000 for a "
     "checkpoint: tfd-run --devices cpu:3 needs 4.800 MB, to the same bits; "
     "or compile it",
     3},
    {"TFD_MEMORY=8 tfd-run large.tfp --devices cpu:3 >&2", "1.0\n", 0},
    {"tfd-run ok.tfp > /dev/full",
     "cannot write what the program prints: No space left on device", 3},
    {"printf 'dataset d = range(2).batch(4)\nfn same(x) = x\n"
     "main { for x in distribute(d) { for p in local_results(run same(x)) {\n"
     "  print(\"{p[0]}\") } } }' > empty.tfd && "
     "tfdc empty.tfd --devices cpu:0-2 && tfd-run empty.tfp",
     "empty.tfd:4:13: error: index 0 of an axis that has 0, "
     "numbered from 0\n",
     1},
    {"tfdc ok.tfd -o ./ok.tfd",
     "\"./ok.tfd\" is the program, and would be overwritten; give "
     "another "
     "name by -o",
     2},
    {"cp ok.tfd a.tfp && tfdc a.tfp", "\"a.tfp\" is the program", 2},
    {"tfdc ok.tfp",
     "cannot compile \"ok.tfp\": it is a plan; tfd-run ok.tfp runs it", 1},
    {"tfdc ok.tfd -o none/ok.tfp",
     "cannot create \"none/ok.tfp\": No such file or directory", 1},
    {"TFD_SANDBOX=seed:1,fast tfd-run steps.tfp --devices sandbox:0",
     "TFD_SANDBOX has \"fast\", which is none of seed:N, cpu, "
     "one-queue, no-peers, repeat, trace, lost:N, engine, timed, no-overlap, "
     "bandwidth:BYTES and latency:SECONDS",
     2},
    {"TFD_FAIL=io:4 tfd-run steps.tfp",
     "this system does not let us run code we load", 3},
    {"TFD_FAIL=thread:1 tfd-run steps.tfp --threads 2",
     "cannot start a thread for the pool: no memory for it, or too many "
     "threads",
     3},
};

/* With every allocation failing once, each of these is said. */
static const char *const shortages[] = {
    "out of memory: ",
    "no memory for threads",
    "no memory for cpu:0",
    " bytes of cpu:0",
    " bytes of code",
    "no memory to open null:0",
    " bytes of null:0",
    "no memory for the queues of sandbox:0",
    " bytes that sandbox:0 is asked for",
};

static const char *const short_runs[] = {
    "tfd-run steps.tfp",
    "tfd-run steps.tfp --devices null:0",
    "tfd-run steps.tfp --devices sandbox:0",
};

/* Without the folder that the program is in. */
static const char *
without_dir(Arena *a, const char *text, const char *dir)
{
    Str s = str_new(a);
    size_t n = strlen(dir);
    while (*text) {
        if (!strncmp(text, dir, n) && text[n] == '/')
            text += n + 1;
        else
            str_addc(&s, *text++);
    }
    return str_text(&s);
}

static void
mistakes_are_told(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const Mistake *m = &mistakes[i];
        write_text(arena_printf(a, "%s/program.tfd", dir), m->program);
        Ran ran = run(a, "tfdc %s/program.tfd -o %s/program.tfp", dir, dir);
        if (m->runs) {
            assert_int_equal(ran.code, 0);
            ran = run(a, "tfd-run %s/program.tfp", dir);
        }
        bool is_warning = strstr(m->message, "warning: ") != NULL;
        const char *said = without_dir(a, ran.err, dir);
        if (!strstr(said, m->message) || ran.code != (is_warning ? 0 : 1))
            fail_msg("exit status %d, and not said: %s\nbut: %s", ran.code,
                     m->message, said);
    }
}

/* Runs a line of the shell in dir. */
static Ran
run_line(Arena *a, const char *dir, const char *line)
{
    const char *script = arena_printf(a, "%s/line.sh", dir);
    write_text(script, arena_printf(a,
                                    "cd %s\n"
                                    "tfdc() { \"$TFDC\" \"$@\"; }\n"
                                    "tfd_run() { \"$TFD_RUN\" \"$@\"; }\n"
                                    "alias tfd-run=tfd_run\n"
                                    "%s\n",
                                    dir, line));
    return run(a, "sh %s", script);
}

static const char *
make_plans(Arena *a)
{
    const char *dir = work_dir(a);
    write_text(arena_printf(a, "%s/ok.tfd", dir), "main { print(\"hi\") }\n");
    write_text(arena_printf(a, "%s/steps.tfd", dir),
               "dataset d = range(8).map(fn(i) = f32(i)).batch(4)\n"
               "main { for x in distribute(d) { print(\"{reduce(sum, x, "
               "axis = 0)}\") } }\n");
    write_text(arena_printf(a, "%s/bools.tfd", dir),
               "var w: bool[3] = [true, false, true]\n"
               "main { save(\"b\") }\n");
    write_text(arena_printf(a, "%s/restores.tfd", dir),
               "var w: bool[3] = [true, false, true]\n"
               "main { restore(\"b\") }\n");
    run_ok(a, "tfdc %s/ok.tfd", dir);
    run_ok(a, "tfdc %s/bools.tfd", dir);
    run_ok(a, "tfdc %s/restores.tfd", dir);
    run_ok(a, "tfdc %s/steps.tfd", dir);
    return dir;
}

static void
refusals_are_told(void **state)
{
    Arena *a = *state;
    const char *dir = make_plans(a);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        Ran ran = run_line(a, dir, refusals[i].line);
        if (!strstr(ran.err, refusals[i].message) ||
            ran.code != refusals[i].code)
            fail_msg("%s\nexit status %d, not %d, and not said: %s\nbut: %s",
                     refusals[i].line, ran.code, refusals[i].code,
                     refusals[i].message, ran.err);
    }
}

/* Under sanitizers each piece of an arena is an allocation of its own. */
static bool
allocations_are_few(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return false;
#elif defined(__has_feature)
    return !__has_feature(address_sanitizer);
#else
    return true;
#endif
}

/* Lets each allocation of the line fail in turn. */
static void
note_shortages(Arena *a, const char *dir, const char *line, bool *seen)
{
    enum { MAX_ALLOCS = 100 };
    int code = -1;
    for (int n = 1; code && n < MAX_ALLOCS; n++) {
        Ran ran =
            run_line(a, dir, arena_printf(a, "TFD_FAIL=alloc:%d %s", n, line));
        for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++)
            seen[i] |= strstr(ran.err, shortages[i]) != NULL;
        code = ran.code;
        assert_true(code == 0 || code == 3);
    }
}

static void
shortages_are_told(void **state)
{
    enum { NUM = sizeof shortages / sizeof *shortages };
    Arena *a = *state;
    const char *dir = make_plans(a);
    bool seen[NUM] = {false};
    for (size_t i = 0; i < sizeof short_runs / sizeof *short_runs; i++)
        note_shortages(a, dir, short_runs[i], seen);
    if (!allocations_are_few())
        return;
    for (int i = 0; i < NUM; i++)
        if (!seen[i])
            fail_msg("not said: %s", shortages[i]);
}

/* When some operation on a file fails, the message is this line.  (The cache,
 * which only saves time, fails silently.) */
static void
expect_in_some(Arena *a, const char *dir, const char *line, const char *message)
{
    bool seen = false;
    for (int n = 1; !seen && n < 30; n++) {
        Ran ran =
            run_line(a, dir, arena_printf(a, "TFD_FAIL=io:%d %s", n, line));
        seen = strstr(ran.err, message) != NULL;
        assert_true(ran.code == 0 || ran.code == 3);
    }
    if (!seen)
        fail_msg("%s never says: %s", line, message);
}

static void
broken_files_are_told(void **state)
{
    Arena *a = *state;
    const char *dir = make_plans(a);
    expect_in_some(a, dir, "tfdc ok.tfd -o x",
                   "cannot make the plan: Write error");
    expect_in_some(a, dir, "tfd-run steps.tfp --checkpoint x.d",
                   "cannot read the folder \"x.d\"");
    expect_in_some(a, dir, "tfdc ok.tfd -o x",
                   "cannot tell \"x\" from \"ok.tfd\"");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(refusals_are_told),
        cmocka_unit_test(shortages_are_told),
        cmocka_unit_test(broken_files_are_told),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
