// What is known of a tensor: beside the pointer, and in the column at the side. Names go in as text, never as markup.

function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function madeAt(id) {
  const { graph } = state;
  if (graph.isExternal(id)) return "before: it has memory of its own";
  if (graph.has(id, INPUT) || graph.step(id) < 0) return "before the first step";
  return `step ${graph.step(id)}`;
}

function lastReadBy(id) {
  const { graph } = state;
  const last = graph.lastRead(id);
  if (last < 0) return graph.has(id, OUTPUT) ? "nobody: it is an output" : "nobody";
  const names = graph.readers(id).filter((reader) => graph.step(reader) === last).map((reader) => graph.name(reader));
  const output = graph.has(id, OUTPUT) ? "; an output, kept to the end" : "";
  return `step ${last}, ${names.join(", ")}${output}`;
}

// How the tensors of one plan share memory with it: a word, and whom.
function sharing(plan, id) {
  const span = plan.spanOf(id);
  if (span < 0) return [];
  const relation = (mate) => {
    const [earlier, later] = plan.start[mate] < plan.start[span] || (plan.start[mate] === plan.start[span] && mate < span)
      ? [mate, span] : [span, mate];
    if (plan.sharing[earlier] === SHARING.INSIDE && plan.sharing[later] === SHARING.OWN) {
      return earlier === span ? "becomes a part of" : "made of";
    }
    return earlier === mate ? "in the memory of" : "then taken over by";
  };
  return plan.sharers(span).map((mate) => ({ how: relation(mate), id: plan.tensor[mate] }));
}

// One line, for those who listen.
function summary(id) {
  const { graph } = state;
  return `${graph.name(id)}, ${graph.op(id)}, ${formatBytes(graph.bytes(id))}, made ${madeAt(id)}, last read by ${lastReadBy(id)}`;
}

function where(plan, id) {
  const span = plan.spanOf(graphRoot(id));
  if (span < 0) return "";
  const chunks = plan.pools.find((pool) => pool.id === plan.pool[span]).chunks.length;
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
    `made: ${madeAt(id)}`,
    `last read: ${lastReadBy(id)}`,
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
  fact("made", madeAt(id));
  fact("last read", lastReadBy(id));
  for (const plan of graph.plans) if (where(plan, id)) fact(`in ${plan.label}`, where(plan, id));
  pane.replaceChildren(node("h2", {}, graph.name(id)), facts, ...lists(id), node("p", {}, closing()));
}

function closing() {
  const button = node("button", { type: "button", class: "link" }, "Back to all (Esc)");
  button.addEventListener("click", () => choose(-1));
  return button;
}

function lists(id) {
  const { graph } = state;
  const through = (source) => (source.through < 0 ? "" : `through ${graph.name(source.through)}`);
  const made = list("Sources", "sources", graph.sources(id).map((source) => ["", source.id, through(source)]));
  made.push(...list("Readers", "readers", graph.readers(id).map((reader) => ["", reader, `step ${graph.step(reader)}`])));
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

// Nothing is chosen: the largest tensors of the peak of the last plan, which is the one that matters.
function overview() {
  const { graph } = state;
  const plan = graph.plans[graph.plans.length - 1];
  const made = [];
  for (const pool of plan.pools) {
    if (!pool.peaks.length) continue;
    const step = pool.peaks[0][0];
    const alive = plan.atPeak.get(pool.id);
    const name = plan.pools.length > 1 ? ` of ${pool.name}` : "";
    const entries = alive.slice(0, 12).map((span) => ["", plan.tensor[span], formatBytes(plan.size_[span])]);
    made.push(node("h2", {}, `At the peak${name}, step ${step}`));
    const kept = pool.bound - alive.reduce((sum, span) => sum + plan.size_[span], 0);
    const free = kept > 0 ? `, ${formatBytes(kept)} of them kept free for a result` : "";
    made.push(node("p", { class: "note" }, `${plan.label}: ${formatBytes(pool.bound)} in ${alive.length} tensors${free}`));
    made.push(...list("Largest", "largest", entries));
  }
  made.push(node("p", { class: "note" }, node("br"), "Click a tensor to see what it reads and who reads it."));
  return made;
}

