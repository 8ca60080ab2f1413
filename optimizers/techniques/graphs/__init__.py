"""What the techniques that run an ONNX graph share: writing the graph, keeping it, running it, proving it.

    recipes.py   which graphs exist, for which architectures, what stands in the way; pure and light
    store.py     the cache of written graphs: a key, a lock, one rename, a marker that is written last
    export.py    the child process that writes a graph and PyTorch's own figures to hold it against
    decoder.py   the graph behind a PreTrainedModel that generate() drives
    gate.py      the loaded graph against PyTorch's figures, before anything is measured
    facts.py     operators, bytes and providers of the graph that is loaded

Holds no technique of its own. Only functions that a worker calls import heavy libraries.
"""
