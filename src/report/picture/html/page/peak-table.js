// The table of tensors that are live at the peak, or at the pinned step, in all plans that are shown.

// The rows: { id, bytes, live: by plan { size, share, offset, chunk } or null }, one for each tensor and buffer.
function peakRows(plans) {
  const rows = new Map();
  plans.forEach((plan, index) => {
    for (const buffer of plan.buffers) {
      const { step } = listedStep(plan, buffer);
      for (const span of plan.liveAt(buffer, step)) {
        const id = plan.tensor[span], key = `${id} ${buffer.id}`;
        const row = rows.get(key) || { id, buffer: buffer.name, live: plans.map(() => null) };
        row.live[index] = { size: plan.size_[span], share: plan.size_[span] / buffer.live[step], offset: plan.offset[span], chunk: plan.chunk[span] };
        rows.set(key, row);
      }
    }
  });
  for (const row of rows.values()) row.size = Math.max(...row.live.map((live) => (live ? live.size : 0)));
  return [...rows.values()];
}

// The columns of every table of tensors.
function tensorColumns(graph) {
  return [
    { title: "tensor", text: ({ id }) => shortened(nameWithOrigin(graph, id), 60), value: ({ id }) => nameWithOrigin(graph, id), tensor: ({ id }) => [graph, id] },
    { title: "operation", text: ({ id }) => graph.op(id), value: ({ id }) => graph.op(id) },
    { title: "type", text: ({ id }) => graph.type(id), value: ({ id }) => graph.type(id) },
    { title: "shape", text: ({ id }) => graph.shape(id), value: ({ id }) => graph.shape(id) },
  ];
}

function peakColumns(graph, plans, hasBuffers) {
  const number = (title, text, value) => ({ title, isNumber: true, text, value });
  const ofPlan = (plan, index) => {
    const live = (row) => row.live[index];
    const name = plans.length > 1 ? `, ${plan.label}` : "";
    const hasChunks = plan.buffers.some((buffer) => buffer.chunks.length > 1);
    const offset = (row) => `${formatNumber(live(row).offset)}${hasChunks ? ` in chunk ${live(row).chunk + 1}` : ""}`;
    return [
      number(`share${name}`, (row) => (live(row) ? formatShare(live(row).share, 1) : "not live"), (row) => (live(row) ? live(row).share : 0)),
      number(`offset${name}`, (row) => (live(row) ? offset(row) : ""), (row) => (live(row) ? live(row).offset : -1)),
    ];
  };
  const step = (title, of) => number(title, (row) => (of(row.id) < 0 ? "" : String(of(row.id))), (row) => of(row.id));
  return [...tensorColumns(graph),
    number("bytes", (row) => formatBytes(row.size), (row) => row.size),
    ...plans.flatMap(ofPlan),
    step("defined", (id) => graph.time(id)),
    step("last use", (id) => (graph.has(id, OUTPUT) ? graph.steps : graph.lastUse(id))),
    ...(hasBuffers ? [{ title: "buffer", text: (row) => row.buffer, value: (row) => row.buffer }] : []),
    ...(graph.bands.length ? [{ title: "block", text: (row) => blockName(graph, row.id), value: (row) => Number(blockName(graph, row.id)) || blockName(graph, row.id) }] : []),
  ];
}

function blockName(graph, id) {
  return graph.step(id) < 0 ? "" : bandAt(graph, graph.step(id))?.name || "";
}

// A line for each plan and buffer: the live bytes, and how they compare.
function peakTotals(plans) {
  return plans.flatMap((plan) => plan.buffers.map((buffer) => {
    const { step, isPeak } = listedStep(plan, buffer);
    const name = plan.buffers.length > 1 ? `, ${buffer.name}` : "";
    const live = `${formatBytes(buffer.live[step])} live in ${plan.liveAt(buffer, step).length} tensors`;
    return `${plan.label}${name}: ${live} at ${isPeak ? "the peak, " : ""}step ${step}, of a buffer of ${formatBytes(buffer.size)}`;
  }));
}

function peakTable() {
  const plans = shownPlans().filter((plan) => plan.graph === state.graph);
  const { graph } = state;
  const hasBuffers = plans.some((plan) => plan.buffers.length > 1);
  const keeps = (row, text) => keepsTensor(graph, row.id, text);
  return { table: new DataTable(peakColumns(graph, plans, hasBuffers), peakRows(plans), { name: "peak", sortedBy: 4, keeps }), notes: peakTotals(plans) };
}

