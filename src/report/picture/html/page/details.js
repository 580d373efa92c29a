// The tooltip and the details of a tensor. Names are inserted as text, never as markup.

function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function defOf(id) {
  const { graph } = state;
  if (graph.isExternal(id)) return "before the graph, in memory of its own";
  if (graph.has(id, INPUT) || graph.step(id) < 0) return "before the first step";
  return `step ${graph.step(id)}`;
}

function lastUseOf(id) {
  const { graph } = state;
  const last = graph.lastUse(id);
  if (last < 0) return graph.has(id, OUTPUT) ? "never: it is an output" : "never";
  const names = graph.readers(id).filter((reader) => graph.step(reader) === last).map((reader) => graph.name(reader));
  const output = graph.has(id, OUTPUT) ? "; an output, kept to the end" : "";
  return `step ${last}, ${names.join(", ")}${output}`;
}

// Until when the program wants to read the tensor; empty where it has not said so.
function retentionOf(id) {
  const { graph } = state;
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
function summary(id) {
  const { graph } = state;
  return `${graph.name(id)}, ${graph.op(id)}, ${formatBytes(graph.bytes(id))}, defined ${defOf(id)}, last use ${lastUseOf(id)}`;
}

function where(plan, id) {
  const span = plan.spanOf(graphRoot(id));
  if (span < 0) return "";
  const chunks = plan.buffers.find((buffer) => buffer.id === plan.buffer[span]).chunks.length;
  return `offset ${formatNumber(plan.offset[span])}${chunks > 1 ? ` of chunk ${plan.chunk[span] + 1}` : ""}`;
}

function graphRoot(id) {
  return state.graph.root(id);
}

function showTooltip(plan, id, x, y) {
  const tooltip = element("tooltip");
  tooltip.hidden = id < 0;
  if (id < 0) return;
  const { graph } = state;
  const lines = [
    `${graph.op(id)}, ${graph.type(id)}, ${graph.shape(id)}`,
    `${formatBytes(graph.bytes(id))} (${formatNumber(graph.bytes(id))} bytes), ${where(plan, id)}`,
    `defined: ${defOf(id)}`,
    `last use: ${lastUseOf(id)}`,
    ...(retentionOf(id) ? [`retained: ${retentionOf(id)}`] : []),
  ];
  const mates = sharing(plan, id).slice(0, 3).map(({ how, id: mate }) => `${how} ${graph.name(mate)}`);
  tooltip.replaceChildren(node("strong", {}, graph.name(id)), ...lines.map((line) => node("span", {}, line)),
    ...mates.map((line) => node("span", { class: "note" }, line)));
  const [width, height] = [tooltip.offsetWidth, tooltip.offsetHeight];
  tooltip.style.left = `${Math.max(Math.min(x + 16, innerWidth - width - 8), 8)}px`;
  tooltip.style.top = `${y + 20 + height > innerHeight ? Math.max(y - height - 14, 8) : y + 20}px`;
}

function showDetails(id) {
  const pane = element("details");
  if (id < 0) {
    pane.replaceChildren(...overview());
    return;
  }
  const { graph } = state;
  const facts = node("dl");
  const fact = (name, ...text) => facts.append(node("dt", {}, name), node("dd", {}, ...text));
  fact("operation", swatch(KINDS[graph.kind(id)].colour), graph.op(id));
  fact("type", graph.type(id));
  fact("shape", graph.shape(id));
  fact("bytes", `${formatBytes(graph.bytes(id))} (${formatNumber(graph.bytes(id))})`);
  if (graph.root(id) !== id) fact("view of", link(graph.root(id)));
  fact("defined", defOf(id));
  fact("last use", lastUseOf(id));
  if (retentionOf(id)) fact("retained", retentionOf(id));
  for (const plan of graph.plans) if (where(plan, id)) fact(`in ${plan.label}`, where(plan, id));
  pane.replaceChildren(node("h2", {}, graph.name(id)), facts, ...lists(id), node("p", {}, closing()));
}

function closing() {
  const button = node("button", { type: "button", class: "link" }, "Clear the selection (Esc)");
  button.addEventListener("click", () => choose(-1));
  return button;
}

function lists(id) {
  const { graph } = state;
  const through = (source) => (source.through < 0 ? "" : `through ${graph.name(source.through)}`);
  const made = list("Sources", "sources", graph.sources(id).map((source) => ["", source.id, through(source)]));
  made.push(...list("Uses", "readers", graph.readers(id).map((reader) => ["", reader, `step ${graph.step(reader)}`])));
  for (const plan of graph.plans) {
    const mates = sharing(plan, id).map(({ how, id: mate }) => [how, mate, ""]);
    made.push(...list(`Shares memory in ${plan.label}`, "sharers", mates));
  }
  return made;
}

function list(title, name, entries) {
  if (!entries.length) return name === "sharers" ? [] : [node("h3", {}, `${title}: none`)];
  const item = ([before, id, after]) => {
    const note = (text) => (text ? [node("span", { class: "note" }, text)] : []);
    return node("li", {}, ...note(before), link(id), ...note(after));
  };
  const count = entries.length > 1 ? ` (${entries.length})` : "";
  return [node("h3", {}, title + count), node("ul", { class: name }, ...entries.map(item))];
}

function link(id) {
  const button = node("button", { type: "button", class: "link" }, state.graph.name(id));
  button.addEventListener("click", () => choose(id));
  return button;
}

function swatch(colour) {
  const made = node("span", { class: "swatch" });
  made.style.background = colour;
  return made;
}

// Without a selection: the largest tensors at the peak of the last plan, which is that of lastuse.
function overview() {
  const { graph } = state;
  const plan = graph.plans[graph.plans.length - 1];
  const made = [];
  for (const buffer of plan.buffers) {
    if (!buffer.peaks.length) continue;
    const step = buffer.peaks[0][0];
    const live = plan.atPeak.get(buffer.id);
    const name = plan.buffers.length > 1 ? ` of ${buffer.name}` : "";
    const entries = live.slice(0, 12).map((span) => ["", plan.tensor[span], formatBytes(plan.size_[span])]);
    made.push(node("h2", {}, `At the peak${name}, step ${step}`));
    const kept = buffer.bound - live.reduce((sum, span) => sum + plan.size_[span], 0);
    const free = kept > 0 ? `, ${formatBytes(kept)} of them reserved for a result` : "";
    made.push(node("p", { class: "note" }, `${plan.label}: ${formatBytes(buffer.bound)} in ${live.length} tensors${free}`));
    made.push(...list("Largest", "largest", entries));
  }
  made.push(node("p", { class: "note" }, node("br"), "Click a tensor to see its sources and uses."));
  return made;
}

