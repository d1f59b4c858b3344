"""Serve a GGUF model over HTTP on loopback until standard input closes: `serve.py MODEL CONTEXT_WINDOW`.

The first line of standard output is the server's address, printed once the model is loaded. Standard input
is the life line: when the process that started this one dies, however it dies, the server ends with it.
"""

import sys

import xllamacpp


def parameters(model: str, context_window: int) -> xllamacpp.CommonParams:
    """Return one slot of so many tokens on a free port, with one thread.

    The model's threads spin while they wait for each other: two of them beside other tests take four times as long.
    """
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = context_window
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0
    params.warmup = False
    params.offline = True
    params.ui = False
    return params


if __name__ == "__main__":
    server = xllamacpp.Server(parameters(sys.argv[1], int(sys.argv[2])))
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
