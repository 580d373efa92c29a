// Peaks of the memory profile, and the ways to them.

// A separate peak rises by this part of the largest peak above the steps before and after it.
const RELIEF = 0.05;

// The step with the most live bytes; the first of several.
function highestStep(live) {
  return live.reduce((highest, bytes, step) => (bytes > live[highest] ? step : highest), 0);
}

// The steps of all peaks, by time, which stand out by RELIEF; the highest is always one of them.
function peakSteps(live) {
  const relief = Math.max(live[highestStep(live)] * RELIEF, 1);
  const steps = [];
  let isRising = true, extreme = 0;
  live.forEach((bytes, step) => {
    if (isRising ? bytes > live[extreme] : bytes < live[extreme]) extreme = step;
    const isTurned = Math.abs(bytes - live[extreme]) >= relief;
    if (!isTurned) return;
    if (isRising) steps.push(extreme);
    isRising = !isRising;
    extreme = step;
  });
  if (isRising && live[extreme] > 0) steps.push(extreme);
  return steps;
}

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
