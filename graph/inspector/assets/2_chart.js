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
  const area = { left: 6, right: width - 12, top: 14, bottom: height - 30 };
  // several attempts before one request have a place each, in their order
  const places = [], beside = new Map();
  for (const { at } of attempts) beside.set(at, (beside.get(at) ?? 0) + 1);
  for (let at = 0, more = 0; at <= last; at += 1) {
    more += Math.max(0, (beside.get(at) ?? 0) - 1);
    places.push(at + more);
  }
  const placed = (place) => area.left + ((place + 0.5) / (places[last] + 1)) * (area.right - area.left);
  return {
    ...area, most, last,
    x: (at) => placed(places[at]),
    xOf: (at, nth) => placed(places[at] - beside.get(at) + 0.5 + nth),
    y: (tokens) => area.bottom - (tokens / most) * (area.bottom - area.top),
  };
}

function gridOf(on, requests) {
  const parts = [];
  for (const tokens of ticks(on.most, 5)) {
    parts.push(draw("line", { class: "grid", x1: on.left, x2: on.right, y1: on.y(tokens), y2: on.y(tokens) }));
  }
  const room = Math.max(2, Math.floor((on.right - on.left) / 90));
  const every = Math.max(1, Math.ceil(requests.length / room));
  for (let at = 0; at < requests.length; at += every) {
    if (at && requests[at].turn === requests[at - every].turn) continue;
    const label = at ? String(requests[at].turn) : `turn ${requests[at].turn}`;
    parts.push(draw("text", { x: on.x(at), y: on.bottom + 20, "text-anchor": at ? "middle" : "start" }, label));
  }
  return parts;
}

/** The sizes at the left, which stay there when the chart is scrolled. */
function axisOf(on, height) {
  return draw("svg", { class: "axis", viewBox: `0 0 ${AXIS} ${height}`, width: AXIS, height, "aria-hidden": "true" },
    ...ticks(on.most, 5).map((tokens) => draw("text", { x: AXIS - 6, y: on.y(tokens) + 4, "text-anchor": "end" }, number(tokens))));
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
  const dots = (on.right - on.left) / on.last < 6 ? [] : requests.map((one, at) =>
    draw("circle", { class: one.answered ? "dot" : "dot failed", cx: on.x(at), cy: on.y(one.tokens), r: 2.2 }));
  const chosen = requests[state.asked];
  const ring = chosen ? [draw("circle", { class: "asked", cx: on.x(state.asked), cy: on.y(chosen.tokens), r: 6 })] : [];
  return [draw("path", { class: "area", d: under }), draw("path", { class: "size", d: `M${points.join("L")}` }), ...dots, ...ring];
}

function saidOf(attempt, index) {
  const { row } = attempt;
  const sizes = row.tokens_after === null || attempt.kind === "failed"
    ? `${number(row.tokens_before)} tokens` : `${number(row.tokens_before)} to ${number(row.tokens_after)} tokens`;
  return `No. ${index + 1} of ${state.data.attempts.length}: ${row.verdict ?? "open"}, ${KINDS[attempt.kind]}, ${sizes}`;
}

function markOf(on, attempt, index, nth) {
  const x = on.xOf(attempt.at, nth), top = on.y(attempt.row.tokens_before);
  const after = attempt.kind === "failed" || attempt.kind === "put off" ? null : attempt.row.tokens_after;
  const mark = draw("g", {
    class: `mark ${classOf(attempt.kind)}`, role: "button", tabindex: index ? "-1" : "0", "data-index": index,
    "aria-label": saidOf(attempt, index), "aria-pressed": "false",
    onclick: (event) => { event.stopPropagation(); choose(index, true); },
  });
  if (after !== null && on.scale > 0.4) mark.append(draw("line", { class: "fall", x1: x, x2: x, y1: top, y2: on.y(after) }));
  mark.append(
    draw("circle", { class: "hit", cx: x, cy: top, r: 12 * on.scale }),
    draw("circle", { class: "ring", cx: x, cy: top, r: 11 }),
    draw("path", { class: "shape", d: SHAPES[attempt.kind], transform: `translate(${x} ${top}) scale(${on.scale})` }));
  return mark;
}

function marksOf(on, attempts) {
  const seen = new Map();
  return attempts.map((attempt, index) => {
    const nth = seen.get(attempt.at) ?? 0;
    seen.set(attempt.at, nth + 1);
    return markOf(on, attempt, index, nth);
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

const APART = 18, AXIS = 58;
function chart() {
  const { requests, attempts } = state.data, box = byId("chart"), atEnd = box.scrollLeft + box.clientWidth >= box.scrollWidth - 2;
  const room = Math.max(240, box.clientWidth - AXIS), wanted = attempts.length * APART + 70;
  byId("widen").hidden = wanted <= room;
  const width = byId("widen").getAttribute("aria-pressed") === "true" ? room : Math.max(room, wanted);
  const height = room < 600 ? 240 : 300;
  const on = scales(requests, attempts, width, height);
  on.scale = Math.min(1, Math.max(0.35, (width - 70) / (attempts.length * APART || 1)));
  const cursor = draw("line", { class: "cursor", y1: on.top, y2: on.bottom, visibility: "hidden" });
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label":
    `${plural(requests.length, "request")} and ${plural(attempts.length, "compaction")}; arrow keys go from mark to mark, Enter opens one` });
  svg.append(...gridOf(on, requests), ...courseOf(on, requests), cursor,
    ...lineOf(on, requests, "limit"), ...lineOf(on, requests, "trigger"), ...marksOf(on, attempts));
  const requestAt = (event) => {
    const bounds = svg.getBoundingClientRect();
    const x = (event.clientX - bounds.left) / bounds.width * width;
    const at = requests.findIndex((one, index) => on.x(index) >= x), after = at < 0 ? requests.length - 1 : at;
    return after > 0 && x - on.x(after - 1) < on.x(after) - x ? after - 1 : after;
  };
  svg.addEventListener("keydown", walk);
  svg.addEventListener("click", (event) => ask(requestAt(event)));
  svg.addEventListener("pointermove", (event) => {
    const at = requestAt(event), one = requests[at];
    if (!one) return;
    filled(cursor, { x1: on.x(at), x2: on.x(at), visibility: "visible" }, []);
    tell(`request ${number(at + 1)}, turn ${number(one.turn)}: ${plural(one.tokens, "token")}, ${sizedBy(one)}; click to read it`);
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); tell(""); });
  const left = box.scrollLeft;
  box.replaceChildren(axisOf(on, height), svg);
  box.scrollLeft = atEnd ? box.scrollWidth : left;
  if (state.chosen) pressed();
}

const sizedBy = (one) => `${one.real ? "by the provider" : "counted"}${one.answered ? "" : ", the call failed"}`;

function twin() {
  const rows = state.data.requests.map((one, at) => [at, one]);
  const part = byId("twin");
  const fill = () => {
    if (!part.open || part.childElementCount > 1) return;
    const heads = ["request", "turn", "tokens", "cached", "answer", "trigger", "limit"].map((name) => [name, "number"]);
    const cells = ([at, one]) => make("tr", {},
      make("td", { class: "number" }, make("button", { type: "button", onclick: () => ask(at) }, number(at + 1))),
      ...[one.turn, one.tokens, one.cached || null, one.output || null, one.trigger, one.limit].map((value) => make("td", { class: "number" }, number(value))),
      make("td", {}, sizedBy(one)));
    part.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The chart as a table" },
      table("Tokens of each request to the model", [...heads, ["size by"]], rows.map(cells))));
  };
  while (part.childElementCount > 1) part.lastChild.remove();
  part.ontoggle = fill;
  fill();
}
