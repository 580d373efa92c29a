// Peaks of the memory profile.

// A separate peak rises by this part of the largest peak above the steps before and after it.
const RELIEF = 0.05;

// The steps with the most live bytes, as ranges.
function peaksOf(buffer) {
  const peaks = [];
  buffer.live.forEach((load, step) => {
    if (load !== buffer.bound) return;
    const last = peaks[peaks.length - 1];
    if (last && last[1] === step) last[1] = step + 1;
    else peaks.push([step, step + 1]);
  });
  return peaks;
}

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
