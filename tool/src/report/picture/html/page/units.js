"use strict";
// Sizes in binary units, and round marks for axes.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function powerOf(bytes) {
  let power = 0;
  while (power + 1 < UNITS.length && bytes >= 1024 ** (power + 1)) power += 1;
  return power;
}

function formatBytes(bytes) {
  const power = powerOf(bytes);
  const whole = bytes / 1024 ** power;
  const digits = whole >= 100 ? 1 : whole >= 10 ? 2 : 3;
  return `${Number(whole.toFixed(digits))} ${UNITS[power]}`;
}

// The bytes of a text such as "8 MiB", "8M" or "1e6"; NaN if it is not a size.
function parseBytes(text) {
  const parts = /^\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*(?:([kmgtpe])i?)?b?\s*$/i.exec(text);
  return parts ? Number(parts[1]) * 1024 ** " kmgtpe".indexOf((parts[2] || " ").toLowerCase()) : NaN;
}

function formatShare(part, whole) {
  return whole > 0 ? `${((part / whole) * 100).toFixed(1)} %` : "";
}

// At most `letters` letters of a name: its start and its end, which tells tensors apart.
function shortened(name, letters) {
  if (name.length <= letters) return name;
  const end = Math.floor((letters - 1) / 2);
  return `${name.slice(0, letters - 1 - end)}…${name.slice(name.length - end)}`;
}

function formatNumber(number) {
  return number.toLocaleString("en-US");
}

function roundStep(end, count) {
  const wanted = Math.max(end / Math.max(count, 1), 1);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= wanted);
}

// Round marks from `from` to `to`, about `count` of them, all in one unit.
function byteTicks(from, to, count) {
  const wanted = Math.max((to - from) / Math.max(count, 1), 1);
  const unit = 1024 ** powerOf(wanted);
  const rounded = roundStep(wanted / unit, 1);
  const step = rounded < 1000 ? unit * rounded : unit * 1024;
  const power = powerOf(step);
  const ticks = [];
  for (let mark = Math.ceil(from / step) * step; mark <= to; mark += step) {
    ticks.push([mark, `${Number((mark / 1024 ** power).toFixed(3))} ${UNITS[power]}`]);
  }
  return ticks;
}

function formatChange(from, to) {
  const percent = (to / Math.max(from, 1) - 1) * 100;
  if (from === to) return "same size";
  if (Math.abs(percent) < 0.05) return `${to < from ? "−" : "+"}${formatBytes(Math.abs(to - from))}`;
  return `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(Math.abs(percent) < 9.95 ? 1 : 0)} %`;
}

