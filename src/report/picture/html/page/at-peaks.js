// Goes to the peak, and from one peak to the next.

// Shows a step in the middle of the view, and lists the tensors that are live at it. A view that is narrow already
// keeps its width.
function showStep(step) {
  const { view, frame } = state;
  const width = Math.min(view.x1 - view.x0, PEAK_STEPS, frame.steps);
  state.pin = step;
  setView(step + 0.5 - width / 2, step + 0.5 + width / 2, 0, 1);
  if (state.chosen >= 0) state.chosen = -1;
  showDetails(-1);
  refreshTable();
}

function showPeak() {
  const buffer = activePlan().largest();
  if (!buffer) return;
  showStep(buffer.peaks.length ? buffer.peaks[0][0] : highestStep(buffer.live));
  announce(`Peak: step ${state.pin}, ${formatBytes(buffer.live[state.pin])} live`);
}

// Goes to the next peak in time, or the one before; from where the view is, if no step is shown.
function nextPeak(by) {
  const buffer = activePlan().largest();
  const steps = buffer ? peakSteps(buffer.live) : [];
  if (!steps.length) return;
  const { view } = state;
  const isWhole = view.x1 - view.x0 >= state.frame.steps;
  const from = state.pin >= 0 ? state.pin : isWhole ? (by > 0 ? -1 : Infinity) : (view.x0 + view.x1) / 2 - 0.5;
  const ahead = by > 0 ? steps.find((step) => step > from) : steps.filter((step) => step < from).pop();
  const step = ahead ?? (by > 0 ? steps[0] : steps[steps.length - 1]);
  showStep(step);
  announce(`Peak ${steps.indexOf(step) + 1} of ${steps.length}: step ${step}, ${formatBytes(buffer.live[step])} live`);
}

function unpin() {
  if (state.pin < 0) return;
  state.pin = -1;
  refreshTable();
}

