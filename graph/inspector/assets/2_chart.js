// The chart: requests along x, tokens upwards; a mark for each attempt at a compaction.

function ticks(most, count) {
  const rough = most / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}

function scales(requests, attempts, width, height) {
  const sizes = requests.flatMap((one) => [one.tokens, one.limit ?? one.trigger ?? 0]);
  const most = Math.max(1, ...sizes, ...attempts.map((one) => one.row.tokens_before)) * 1.06;
  const last = Math.max(1, requests.length, ...attempts.map((one) => one.at));
  const area = { left: 58, right: width - 12, top: 14, bottom: height - 30 };
  return {
    ...area, most, last,
    x: (at) => area.left + ((at + 0.5) / (last + 1)) * (area.right - area.left),
    y: (tokens) => area.bottom - (tokens / most) * (area.bottom - area.top),
  };
}

function gridOf(on, requests) {
  const parts = [];
  for (const tokens of ticks(on.most, 5)) {
    parts.push(draw("line", { class: "grid", x1: on.left, x2: on.right, y1: on.y(tokens), y2: on.y(tokens) }));
    parts.push(draw("text", { x: on.left - 8, y: on.y(tokens) + 4, "text-anchor": "end" }, number(tokens)));
  }
  const room = Math.max(2, Math.floor((on.right - on.left) / 90));
  const every = Math.max(1, Math.ceil(requests.length / room));
  for (let at = 0; at < requests.length; at += every) {
    const label = at ? String(requests[at].turn) : `turn ${requests[at].turn}`;
    parts.push(draw("text", { x: on.x(at), y: on.bottom + 20, "text-anchor": "middle" }, label));
  }
  return parts;
}

function lineOf(on, requests, name) {
  const known = requests.map((one, at) => [at, one[name]]).filter(([, tokens]) => tokens !== null);
  if (!known.length) return [];
  const path = known.map(([at, tokens], index) => `${index ? `H${on.x(at)}V` : `M${on.left},`}${on.y(tokens)}`);
  return [draw("path", { class: name, d: `${path.join("")}H${on.right}` })];
}

function courseOf(on, requests) {
  if (!requests.length) return [];
  const points = requests.map((one, at) => `${on.x(at).toFixed(1)},${on.y(one.tokens).toFixed(1)}`);
  const under = `M${on.x(0)},${on.bottom}L${points.join("L")}L${on.x(requests.length - 1)},${on.bottom}Z`;
  return [draw("path", { class: "area", d: under }), draw("path", { class: "size", d: `M${points.join("L")}` })];
}

function saidOf(attempt, index) {
  const { row } = attempt;
  const sizes = row.tokens_after === null || attempt.kind === "failed"
    ? `${number(row.tokens_before)} tokens` : `${number(row.tokens_before)} to ${number(row.tokens_after)} tokens`;
  return `${index + 1} of ${state.data.attempts.length}: ${row.verdict ?? "open"}, ${KINDS[attempt.kind]}, ${sizes}`;
}

function markOf(on, attempt, index, stacked) {
  const x = on.x(attempt.at - 0.5), top = on.y(attempt.row.tokens_before) - stacked * 15 * on.scale;
  const after = attempt.kind === "failed" || attempt.kind === "put off" ? null : attempt.row.tokens_after;
  const mark = draw("g", {
    class: `mark ${classOf(attempt.kind)}`, role: "button", tabindex: index ? "-1" : "0", "data-index": index,
    "aria-label": `Compaction ${saidOf(attempt, index)}`, "aria-pressed": "false",
    onclick: () => choose(index, true),
  });
  if (after !== null) mark.append(draw("line", { class: "fall", x1: x, x2: x, y1: top, y2: on.y(after) }));
  mark.append(
    draw("circle", { class: "hit", cx: x, cy: top, r: 12 * on.scale }),
    draw("circle", { class: "ring", cx: x, cy: top, r: 11 }),
    draw("path", { class: "shape", d: SHAPES[attempt.kind], transform: `translate(${x} ${top}) scale(${on.scale})` }));
  return mark;
}

function marksOf(on, attempts) {
  const at = new Map();
  return attempts.flatMap((attempt, index) => {
    if (attempt.kind === "undone" && attempt.row.verdict === "undone" && !attempt.row.tokens_before) return [];
    const stacked = at.get(attempt.at) ?? 0;
    at.set(attempt.at, stacked + 1);
    return [markOf(on, attempt, index, stacked)];
  });
}

function walk(event) {
  const marks = [...event.currentTarget.querySelectorAll(".mark")];
  const here = marks.indexOf(document.activeElement);
  if (here < 0) return;
  const steps = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1, Home: 0, End: marks.length - 1 };
  if (event.key in steps) {
    const next = marks[Math.min(marks.length - 1, Math.max(0, steps[event.key]))];
    marks.forEach((mark) => mark.setAttribute("tabindex", mark === next ? "0" : "-1"));
    next.focus();
    tell(saidOf(state.data.attempts[next.dataset.index], Number(next.dataset.index)));
  } else if (event.key === "Enter" || event.key === " ") {
    choose(Number(marks[here].dataset.index), true);
  } else return;
  event.preventDefault();
}

const tell = (words) => { byId("readout").textContent = words; };

const APART = 18;
function chart() {
  const { requests, attempts } = state.data;
  const room = Math.max(300, byId("chart").clientWidth), wanted = attempts.length * APART + 70;
  byId("widen").hidden = wanted <= room;
  const width = byId("widen").getAttribute("aria-pressed") === "true" ? Math.max(room, wanted) : room;
  const height = room < 600 ? 240 : 300;
  const on = scales(requests, attempts, width, height);
  on.scale = Math.min(1, Math.max(0.35, (width - 70) / (attempts.length * APART || 1)));
  const cursor = draw("line", { class: "cursor", y1: on.top, y2: on.bottom, visibility: "hidden" });
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label":
    `${plural(requests.length, "request")} and ${plural(attempts.length, "compaction")}; arrow keys go from mark to mark, Enter opens one` });
  svg.append(...gridOf(on, requests), ...courseOf(on, requests), cursor,
    ...lineOf(on, requests, "limit"), ...lineOf(on, requests, "trigger"), ...marksOf(on, attempts));
  svg.addEventListener("keydown", walk);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * width - on.left) / (on.right - on.left);
    const at = Math.min(requests.length - 1, Math.max(0, Math.round(share * (on.last + 1) - 0.5)));
    const one = requests[at];
    if (!one) return;
    filled(cursor, { x1: on.x(at), x2: on.x(at), visibility: "visible" }, []);
    tell(`request ${number(at + 1)}, turn ${number(one.turn)}: ${plural(one.tokens, "token")}, ${sizedBy(one)}`);
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); tell(""); });
  byId("chart").replaceChildren(svg);
  if (state.chosen) pressed();
}

const sizedBy = (one) => `${one.real ? "by the provider" : "counted"}${one.answered ? "" : ", the call failed"}`;

function twin() {
  const rows = state.data.requests.map((one, at) => [at, one]);
  const part = byId("twin");
  const fill = () => {
    if (!part.open || part.childElementCount > 1) return;
    const heads = [["request", "number"], ["turn", "number"], ["tokens", "number"], ["trigger", "number"], ["limit", "number"], ["size by"]];
    const cells = ([at, one]) => make("tr", {},
      ...[at + 1, one.turn, one.tokens, one.trigger, one.limit].map((value) => make("td", { class: "number" }, number(value))),
      make("td", {}, sizedBy(one)));
    part.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The chart as a table" },
      table("Tokens of each request to the model", heads, rows.map(cells))));
  };
  while (part.childElementCount > 1) part.lastChild.remove();
  part.ontoggle = fill;
  fill();
}
