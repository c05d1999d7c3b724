"""The operations of models.py in PyTorch, and its training step, eager or compiled.

Images are channels last; attention, the norms and LSTMs are PyTorch's own.
"""
import torch
import torch.nn.functional as F

from values import Unsupported, is_trainable


def unrolled_lstm(x, w, u, b):
    """For graphs: compiled code cannot call PyTorch's own with gradients."""
    given, out = F.linear(x, w, b), []
    h = c = x.new_zeros(x.shape[0], u.shape[1])
    for t in range(x.shape[1]):
        entry, keep, new, leave = (given[:, t] + F.linear(h, u)).chunk(4, -1)
        c = torch.sigmoid(keep) * c + torch.sigmoid(entry) * torch.tanh(new)
        h = torch.sigmoid(leave) * torch.tanh(c)
        out.append(h)
    return torch.stack(out, 1)


class Ops:
    def __init__(self, variables, sparse):
        self.variables, self.sparse = variables, sparse

    relu, relu6, gelu = staticmethod(F.relu), staticmethod(F.relu6), staticmethod(F.gelu)
    mean, stack, concat = staticmethod(torch.mean), staticmethod(torch.stack), staticmethod(torch.cat)
    reshape = staticmethod(torch.reshape)

    def var(self, name):
        return self.variables[name]

    def linear(self, name, x):
        return F.linear(x, self.var(name + ".w").t(), self.var(name + ".b"))

    def rows(self, name, ids):
        return F.embedding(ids, self.var(name))

    def sparse_rows(self, name, ids):
        return F.embedding(ids, self.var(name), sparse=self.sparse)

    def layer_norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.var(name + ".scale"), self.var(name + ".offset"))

    def batch_norm(self, name, x):
        return F.batch_norm(x, self.var(name + ".mean_average"),
                            self.var(name + ".variance_average"), self.var(name + ".scale"),
                            self.var(name + ".offset"), training=True, momentum=0.1)

    def conv(self, name, x, stride, groups):
        w = self.var(name + ".w")
        return F.conv2d(x, w, None, stride, w.shape[2] // 2, groups=groups)

    def lstm(self, name, x):
        w, u, b = (self.var(f"{name}.{n}") for n in "wub")
        if torch.compiler.is_compiling():
            return unrolled_lstm(x, w, u, b)
        zeros = x.new_zeros(1, x.shape[0], u.shape[1])
        return torch.lstm(x, (zeros, zeros), (w, u, b, torch.zeros_like(b)), True, 1, 0.0, True,
                          False, True)[0]

    @staticmethod
    def image(x):
        return x.permute(0, 3, 1, 2)

    @staticmethod
    def mean_of_pixels(x):
        return x.mean((2, 3))

    @staticmethod
    def split(x, n):
        return x.chunk(n, -1)

    @staticmethod
    def turned(x):
        return x.transpose(-1, -2)

    @staticmethod
    def heads(x, n):
        return x.view(*x.shape[:2], n, -1).transpose(1, 2)

    @staticmethod
    def joined(x):
        return x.transpose(1, 2).flatten(2)

    @staticmethod
    def causal_attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    @staticmethod
    def cross_entropy(logits, labels):
        return F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten().long())

    @staticmethod
    def binary_cross_entropy(logits, labels):
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))

    def operation(self, row, i):
        y = eval(row.torch, globals(), {**self.variables, "i": i})  # pylint: disable=eval-used
        return (y * y).sum() / 2


def convolved(name, t):
    """Images and weights of convolutions, channels first in the shape and last in memory."""
    n = t.ndim
    t = t.permute((n - 1, n - 2, *range(n - 2)) if name == "w" else (0, n - 1, *range(1, n - 1)))
    formats = {3: torch.contiguous_format, 4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[n])


def tensor_of(name, array, names):
    """As PyTorch's layers have it: convolutions out x in x height x width, LSTMs out x in."""
    t = torch.from_numpy(array.astype("float32"))
    if array.dtype.name == "bfloat16":
        t = t.bfloat16()
    own_name = name.rpartition(".")[2]
    if t.ndim >= 3 and own_name in ("w", "x"):
        return convolved(own_name, t)
    is_lstm = name[:-1] + "u" in names and t.ndim == 2
    return t.t().contiguous() if is_lstm else t


class Net(torch.nn.Module):
    """What DDP wants: a module whose forward is the loss."""

    def __init__(self, case, arrays, sparse):
        super().__init__()
        self.network, self.sizes, self.sparse = case.model.network, case.sizes, sparse
        self.names = {name: "v_" + name.replace(".", "_") for name in arrays}
        for name, array in arrays.items():
            t = tensor_of(name, array, arrays)
            if is_trainable(name):
                self.register_parameter(self.names[name], torch.nn.Parameter(t))
            else:
                self.register_buffer(self.names[name], t)

    def forward(self, *batch):
        variables = {name: getattr(self, own) for name, own in self.names.items()}
        return self.network(Ops(variables, self.sparse), self.sizes, *batch)


def joined_replicas(case, rank, replicas, port):
    if case.model.batch_norm:
        raise Unsupported("PyTorch synchronizes batch norms on GPUs only")
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank,
                                         world_size=replicas)


class Peer:
    def __init__(self, case, arrays, batches, mode, threads, replicas, rank, port):
        torch.set_num_threads(max(1, threads // replicas))
        compiled = mode == "compile"
        # What DLRM's own code does; compiled graphs have no sparse gradients.
        net = Net(case, arrays, sparse=not compiled and replicas == 1)
        parameters = list(net.parameters())
        self.optimizer = (torch.optim.Adam(parameters, case.model.adam, fused=True)
                          if case.model.adam else torch.optim.SGD(parameters, case.model.rate))
        self.replicas = replicas
        if replicas > 1:
            joined_replicas(case, rank, replicas, port)
            net = torch.nn.parallel.DistributedDataParallel(net)
        self.net = torch.compile(net) if compiled else net
        part = len(batches[0][0]) // replicas
        self.batches = [tuple(torch.from_numpy(a[rank * part:(rank + 1) * part].copy())
                              for a in batch) for batch in batches]

    def step(self, i):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.net(*self.batches[i % len(self.batches)])
        loss.backward()
        self.optimizer.step()
        return loss

    def value(self, loss):
        loss = loss.detach()
        if self.replicas > 1:
            torch.distributed.all_reduce(loss)
        return float(loss) / self.replicas

    @staticmethod
    def share(command):
        """The same command in all processes: rank 0's."""
        words = [command]
        torch.distributed.broadcast_object_list(words)
        return words[0]


VERSION = "PyTorch " + torch.__version__.split("+")[0]
