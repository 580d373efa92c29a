// Facts about a tensor, as texts.

function defOf(graph, id) {
  if (graph.isExternal(id)) return "before the graph, in its own memory";
  if (graph.has(id, INPUT) || graph.step(id) < 0) return "before the first step";
  return `step ${graph.step(id)}`;
}

function lastUseOf(graph, id) {
  const last = graph.lastUse(id);
  const { plans, areAll } = graph.keepers(id);
  const kept = !plans.length || graph.has(id, OUTPUT) ? "" : `; kept to the end${areAll ? "" : ` by ${plans.map((plan) => plan.label).join(", ")}`}`;
  if (last < 0) return graph.has(id, OUTPUT) ? "never: it is an output" : `never${kept}`;
  const names = graph.readers(id).filter((reader) => graph.step(reader) === last).map((reader) => shortened(graph.name(reader), 80));
  const output = graph.has(id, OUTPUT) ? "; an output, kept to the end" : "";
  return `step ${last}, ${names.join(", ")}${output}${kept}`;
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

// The tooltip, and the column at the side: the details of a tensor, or the tensors that are live at the peak.

function showTooltip(plan, id, x, y) {
  const tooltip = element("tooltip");
  tooltip.hidden = id < 0;
  if (id < 0) return;
  const { graph } = plan;
  const origin = graph.origin(id);
  const lines = [
    `${graph.op(id)}, ${graph.type(id)}, ${graph.shape(id)}${origin ? `, of ${shortened(origin, 80)}` : ""}`,
    `${formatBytes(graph.bytes(id))} (${formatNumber(graph.bytes(id))} bytes), ${where(plan, id)}`,
    `defined: ${defOf(graph, id)}`,
    `last use: ${lastUseOf(graph, id)}`,
    ...(retentionOf(graph, id) ? [`retained: ${retentionOf(graph, id)}`] : []),
  ];
  const mates = sharing(plan, id).slice(0, 3).map(({ how, id: mate }) => `${how} ${shortened(graph.name(mate), 80)}`);
  tooltip.replaceChildren(node("strong", {}, shortened(graph.name(id), 160)), ...lines.map((line) => node("span", {}, line)),
    ...mates.map((line) => node("span", { class: "note" }, line)));
  const [width, height] = [tooltip.offsetWidth, tooltip.offsetHeight];
  tooltip.style.left = `${Math.max(Math.min(x + 16, innerWidth - width - 8), 8)}px`;
  tooltip.style.top = `${y + 20 + height > innerHeight ? Math.max(y - height - 14, 8) : y + 20}px`;
}

function showDetails(id, graph = state.graph) {
  const pane = element("details");
  if (id < 0) {
    pane.replaceChildren(...overview());
    return;
  }
  const facts = node("dl");
  const fact = (name, ...text) => facts.append(node("dt", {}, name), node("dd", {}, ...text));
  fact("operation", swatch(KINDS[graph.kind(id)].colour), graph.op(id));
  fact("type", graph.type(id));
  fact("shape", graph.shape(id));
  fact("bytes", `${formatBytes(graph.bytes(id))} (${formatNumber(graph.bytes(id))})`);
  if (graph.origin(id)) fact("of", graph.origin(id));
  if (graph.root(id) !== id) fact("view of", link(graph, graph.root(id)));
  if (blockName(graph, id)) fact(bandWord(graph), blockName(graph, id));
  fact("defined", defOf(graph, id));
  fact("last use", lastUseOf(graph, id));
  if (retentionOf(graph, id)) fact("retained", retentionOf(graph, id));
  if (graph !== state.graph) fact("graph", graph.label);
  else if (state.comparison) fact("before", state.comparison.fateOf(id));
  for (const plan of graph.plans) if (where(plan, id)) fact(`in ${plan.label}`, where(plan, id));
  const clear = button("Clear the selection (Esc)", () => choose(-1), { class: "link" });
  pane.replaceChildren(node("h2", {}, graph.name(id)), facts, ...lists(graph, id), node("p", {}, clear));
}

function lists(graph, id) {
  const through = (source) => (source.through < 0 ? "" : `through ${shortened(graph.name(source.through), 40)}`);
  const made = list("Sources", "sources", graph, graph.sources(id).map((source) => ["", source.id, through(source)]));
  made.push(...list("Uses", "readers", graph, graph.readers(id).map((reader) => ["", reader, `step ${graph.step(reader)}`])));
  for (const plan of graph.plans) {
    const mates = sharing(plan, id).map(({ how, id: mate }) => [how, mate, ""]);
    made.push(...list(`Shares memory in ${plan.label}`, "sharers", graph, mates));
  }
  return made;
}

// Tensors that are listed of one buffer, and of each of several.
const LISTED = 12, LISTED_OF_EACH = 6;

// Without a selection: the largest tensors at the peak, or at the pinned step, of each plan that is shown.
function overview() {
  const parts = shownPlans().flatMap((plan) => plan.buffers.map((buffer) => ({ plan, buffer })));
  const filled = parts.filter(({ plan, buffer }) => plan.liveAt(buffer, listedStep(plan, buffer).step).length);
  const made = filled.flatMap(({ plan, buffer }) => peakOf(plan, buffer, filled.length > 1 ? LISTED_OF_EACH : LISTED));
  made.push(node("p", {}, button("All of them, as a table (t)", () => showTable("peak"), { class: "link" })));
  if (state.comparison) made.push(...comparisonSummary(state.comparison));
  made.push(node("p", { class: "note" }, node("br"), "Click a tensor to see its sources and uses."));
  return made;
}

// What is live in a buffer at its peak, or at the pinned step.
function peakOf(plan, buffer, most) {
  const { step, isPeak } = listedStep(plan, buffer);
  const live = plan.liveAt(buffer, step);
  const name = plan.buffers.length > 1 ? ` of ${buffer.name}` : "";
  const entries = live.slice(0, most).map((span) => {
    const [bytes, share] = [plan.size_[span], formatShare(plan.size_[span], buffer.live[step])];
    return ["", plan.tensor[span], `${formatBytes(bytes)}, ${share}`];
  });
  const kept = buffer.live[step] - live.reduce((sum, span) => sum + plan.size_[span], 0);
  const free = kept > 0 ? `, ${formatBytes(kept)} of them reserved for a result` : "";
  const total = `${formatBytes(buffer.live[step])} in ${live.length} tensors${free}`;
  return [node("h2", {}, isPeak ? `${planName(plan)} at the peak${name}, step ${step}` : `${planName(plan)} at step ${step}${name}`),
    node("p", { class: "note" }, total), ...list("Largest", "largest", plan.graph, entries, live.length)];
}
