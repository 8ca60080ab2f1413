"""What the techniques that run an ONNX graph share: writing the graph, keeping it, running it, proving it.

    recipes.py         which graphs exist, the road of each architecture, what stands in the way; pure and light
    store.py           the cache of written graphs: a key, a lock, one rename, a marker that is written last
    child.py           the processes in which graphs are written
    export.py          what such a process does, and the parent's side of it
      building.py        by onnxruntime-genai's model builder
      tracing.py         by transformers' exporter, for architectures that the builder does not know
      quantizing.py      by onnxruntime's quantizer, from a traced graph
      optimum.py         by Optimum, which also drives it, in an engine's environment (`engines/`)
      older.py           what transformers 5 wrote, for transformers 4 to read
    reference.py       PyTorch's own figures, which a graph is held against
    backed.py          what every model that runs a graph tells about it
    decoder.py         the graph behind a PreTrainedModel that generate() drives
      builder_graph.py   a session whose keys and values are written in place
      traced_graph.py    a session whose keys and values grow
    gate.py            the loaded graph against PyTorch's figures, before anything is measured
    written.py         the code by which a graph is had without this program, for recipes
    facts.py           operators, bytes and providers of the graph that is loaded
    names.py, sessions.py  what several of these call things, and how they open a session

Holds no technique of its own. Only functions that a worker calls import heavy libraries.
"""
