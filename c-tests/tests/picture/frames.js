// Zooms in and out for two seconds, a step a frame; tells milliseconds: between frames, and of the program that paints.
new Promise((done) => {
  const [frames, paints] = [[], []];
  const median = (numbers) => numbers.sort((one, other) => one - other)[Math.floor(numbers.length / 2)];
  const most = (numbers) => Math.max(...numbers);
  let last = performance.now(), count = 0;
  const step = (now) => {
    frames.push(now - last);
    last = now;
    zoom(count % 60 < 30 ? 0.95 : 1 / 0.95, count % 60 < 30 ? 0.98 : 1 / 0.98, 0.4, 0.6);
    const start = performance.now();
    paintNow();
    paints.push(performance.now() - start);
    count += 1;
    if (count < 120) requestAnimationFrame(step);
    else done({
      steps: state.graph.steps, rectangles: state.painters.map(({ plan }) => plan.count),
      frame: { median: median(frames), most: most(frames) }, paint: { median: median(paints), most: most(paints) },
    });
  };
  requestAnimationFrame(step);
})
