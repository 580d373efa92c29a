"""Completes a text with xllamacpp: python complete.py MODEL OUTPUT never|first|late, which is when lastuse is imported.

With lastuse first, its graphs are captured to OUTPUT.graphs and explained.
"""

import json
import sys

MODEL, OUTPUT, IMPORT = sys.argv[1:4]
if IMPORT == "first":
    import lastuse

    lastuse.set("capture", OUTPUT + ".graphs")
import xllamacpp

if IMPORT == "late":
    import lastuse

params = xllamacpp.CommonParams()
params.model.path = MODEL
params.n_ctx = 1024
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.warmup = False
server = xllamacpp.Server(params)
prompt = {"prompt": "aaa baa caa daa " * 20, "max_tokens": 12, "temperature": 0, "seed": 1, "logprobs": 3}
choice = server.handle_completions(prompt)["choices"][0]
with open(OUTPUT, "w") as output:
    json.dump([choice["text"], choice["logprobs"]], output)
if IMPORT == "first" and lastuse.enabled():
    print("stats=" + json.dumps(lastuse.stats()))
    print("explained=" + lastuse.explain().splitlines()[0])
