"""Continues a text with llama-cpp-python: python decode.py MODEL OUTPUT never|first|late, which is when lastuse is imported."""

import json
import sys

MODEL, OUTPUT, IMPORT = sys.argv[1:4]
if IMPORT == "first":
    import lastuse

    lastuse.set("capture", OUTPUT + ".graphs")
import llama_cpp

if IMPORT == "late":
    import lastuse

model = llama_cpp.Llama(MODEL, n_ctx=1024, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False)
done = model("aaa baa caa daa " * 20, max_tokens=12, temperature=0, seed=1, logprobs=3)
choice = done["choices"][0]
with open(OUTPUT, "w") as output:
    output.write(repr([choice["text"], choice["logprobs"]]))
if IMPORT == "first" and lastuse.enabled():
    print("stats=" + json.dumps(lastuse.stats()))
    print("explained=" + lastuse.explain().splitlines()[0])
