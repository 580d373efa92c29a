// Facts about a tensor, as texts.

function defOf(graph, id) {
  if (graph.isExternal(id)) return "before the graph, in its own memory";
  if (graph.has(id, INPUT) || graph.step(id) < 0) return "before the first step";
  return `step ${graph.step(id)}`;
}

function lastUseOf(graph, id) {
  const last = graph.lastUse(id);
  if (last < 0) return graph.has(id, OUTPUT) ? "never: it is an output" : "never";
  const names = graph.readers(id).filter((reader) => graph.step(reader) === last).map((reader) => shortened(graph.name(reader), 80));
  const output = graph.has(id, OUTPUT) ? "; an output, kept to the end" : "";
  return `step ${last}, ${names.join(", ")}${output}`;
}

// Until when the program wants to read the tensor; empty where it has not said so.
function retentionOf(graph, id) {
  const until = graph.retained(id);
  if (until < -1) return "";
  return until < 0 ? "to the end" : `until step ${until} has run`;
}

// The tensors that share memory with this one in a plan, and how.
function sharing(plan, id) {
  const span = plan.spanOf(id);
  if (span < 0) return [];
  const relation = (other) => {
    const [earlier, later] = plan.start[other] < plan.start[span] || (plan.start[other] === plan.start[span] && other < span)
      ? [other, span] : [span, other];
    if (plan.sharing[earlier] === SHARING.INSIDE && plan.sharing[later] === SHARING.OWN) {
      return earlier === span ? "computed inside" : "contains";
    }
    return earlier === other ? "in the memory of" : "memory reused by";
  };
  return plan.sharers(span).map((mate) => ({ how: relation(mate), id: plan.tensor[mate] }));
}

// One line for screen readers.
function summary(graph, id) {
  const name = shortened(graph.name(id), 80);
  return `${name}, ${graph.op(id)}, ${formatBytes(graph.bytes(id))}, defined ${defOf(graph, id)}, last use ${lastUseOf(graph, id)}`;
}

function where(plan, id) {
  const span = plan.spanOf(plan.graph.root(id));
  if (span < 0) return "";
  const chunks = plan.buffers.find((buffer) => buffer.id === plan.buffer[span]).chunks.length;
  return `offset ${formatNumber(plan.offset[span])}${chunks > 1 ? ` of chunk ${plan.chunk[span] + 1}` : ""}`;
}

// The step whose live tensors are listed for a buffer, and whether it is its peak.
function listedStep(plan, buffer) {
  const peak = buffer.peaks.length ? buffer.peaks[0][0] : highestStep(buffer.live);
  const isPinned = state.pin >= 0 && plan.graph === state.graph && state.pin < buffer.live.length;
  return isPinned ? { step: state.pin, isPeak: buffer.live[state.pin] === buffer.live[peak] } : { step: peak, isPeak: true };
}

