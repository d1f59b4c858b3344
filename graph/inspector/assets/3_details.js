// One compaction: its figures, its summary and what stands beside it, what left, what was shortened, the diff.

const SENTENCES = {
  "committed": "It was committed, and the conversation rests on it.",
  "failed": "It failed. The conversation was left as it was, byte for byte.",
  "put off": "Nothing was compacted.",
  "undone": "It was undone: what it replaced stands again.",
  "other branch": "It was committed on a branch on which the thread as it is now does not rest.",
  "open": "It has not ended.",
  "prepared": "A summary was made in the background, before it was needed. The reason says whether a compaction used it.",
};

function list() {
  const heads = [["no.", "number"], ["verdict"], ["before", "number"], ["after", "number"]];
  const rows = state.data.attempts.map((attempt, index) => {
    const { row } = attempt;
    const open = make("button", { type: "button", onclick: (event) => { event.stopPropagation(); choose(index, true); } },
      badge(attempt.kind, row.verdict ?? "open"));
    return make("tr", { onclick: () => choose(index, true) },
      make("td", { class: "number" }, number(index + 1)),
      make("td", {}, open, attempt.kind === "other branch" || (attempt.kind === "undone" && row.verdict !== "undone")
        ? make("div", { class: "quiet" }, KINDS[attempt.kind]) : null,
        row.reason ? make("div", { class: "quiet word" }, word(row.reason)) : null,
        state.data.frequent.includes(index) ? make("div", { class: "quiet put-off" }, "too soon") : null),
      make("td", { class: "number" }, number(row.tokens_before)),
      make("td", { class: "number" }, number(row.tokens_after)));
  });
  const soon = state.data.frequent.map((index) => number(index + 1)).join(", ");
  byId("frequent").textContent = soon && `Too soon after others: ${soon}. Automatic compactions pause after these while requests fit. `
    + "Their bars show whether what stays leaves too little room.";
  byId("list").replaceChildren(rows.length
    ? make("div", { class: "scroll" }, table("Attempts, in the order in which they began. Choose one to see what it did.", heads, rows))
    : make("p", { class: "quiet" }, "This thread was never compacted."));
}

function textDiff(before, after) {
  let head = 0, tail = 0;
  const most = Math.min(before.length, after.length);
  while (head < most && before[head] === after[head]) head += 1;
  while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const middle = (words) => words.slice(head, words.length - tail);
  const end = before.slice(before.length - tail);
  const long = middle(before);
  const gone = make("del", {}, long.length > LONG ? `${long.slice(0, LONG)} …` : long);
  const body = make("pre", { class: "text" }, before.slice(0, head), gone, make("ins", {}, middle(after)), end);
  if (long.length <= LONG) return body;
  const all = make("button", { type: "button", onclick: () => { gone.textContent = long; all.remove(); } },
    `Show all ${number(long.length)} characters that were cut`);
  return make("div", {}, body, all);
}

/** Before and after in one order: each step is `[sign, number, other number]`. */
function steps(attempt) {
  const before = numbersOf(attempt.before), after = numbersOf(attempt.after);
  const names = state.data.messages;
  const now = new Map(after.map((seq) => [names[seq].id, seq]));
  const old = new Set(before.map((seq) => names[seq].id));
  const found = [];
  let next = 0;
  const arrived = () => {
    while (next < after.length && !old.has(names[after[next]].id)) found.push(["+", after[next++]]);
  };
  for (const seq of before) {
    const stands = now.get(names[seq].id);
    if (stands === undefined) { found.push(["-", seq]); continue; }
    arrived();
    next = after.indexOf(stands) + 1;
    found.push(stands === seq ? ["=", seq] : ["~", seq, stands]);
  }
  arrived();
  return found;
}

function diff(attempt) {
  const parts = [], all = steps(attempt);
  const tally = [["-", "left"], ["~", "shortened"], ["+", "came"], ["=", "kept as they were"]]
    .map(([sign, words]) => `${number(all.filter((step) => step[0] === sign).length)} ${words}`);
  for (const step of all) {
    const last = parts[parts.length - 1];
    if (step[0] === "=" && Array.isArray(last)) last.push(step[1]);
    else parts.push(step[0] === "=" ? [step[1]] : { step });
  }
  return make("div", {}, make("p", { class: "quiet" }, tally.join(", ")), inPages(parts, (part) => {
    if (Array.isArray(part)) {
      return folded(`${plural(part.length, "message")} kept as ${part.length === 1 ? "it was" : "they were"}`,
        () => inPages(part, (seq) => message(seq, "view", "kept")));
    }
    const [sign, seq, other] = part.step;
    if (sign === "-") return message(seq, "gone", "− left the view", text(state.data.messages[seq].text, SHORT));
    if (sign === "+") return message(seq, "come", "+ came", text(state.data.messages[seq].text, SHORT));
    return message(seq, "cut", "± shortened", textDiff(state.data.messages[seq].text, state.data.messages[other].text));
  }));
}

function panel(title, content) {
  return make("section", { class: "panel" }, make("h3", {}, title), content);
}

function beside(attempt) {
  const { messages } = state.data;
  const whole = attempt.summary === null ? "" : messages[attempt.summary].text;
  const facts = /<facts>\n([\s\S]*?)\n<\/facts>/.exec(whole);
  const parts = [];
  const written = (whole || attempt.row.summary || "").replace(facts?.[0] ?? "", "");
  if (written) parts.push(panel("Summary", make("pre", { class: "text", tabindex: "0" }, written)));
  if (facts) parts.push(panel("Facts beside it", make("pre", { class: "text", tabindex: "0" }, facts[1])));
  if (attempt.goal) parts.push(panel("Goal", make("pre", { class: "text" }, attempt.goal)));
  if (attempt.pins.length) parts.push(panel("Pins", make("div", {}, ...attempt.pins.map((seq) => message(seq, "view")))));
  return parts.length ? make("div", { class: "beside" }, ...parts) : null;
}

/** What filled the window before and after a compaction: HTML of this package, without words of a conversation. */
function bars(attempt) {
  const box = make("div", { class: "bars", role: "group", "aria-label": "What filled the window, in tokens" });
  box.innerHTML = state.data.bars[attempt.row.compaction_id];
  return box;
}

function what(attempt) {
  const { row, messages } = { ...attempt, messages: state.data.messages };
  const share = row.tokens_after && attempt.kind !== "failed" ? `${Math.round(100 * (1 - row.tokens_after / row.tokens_before))} %` : "";
  const parts = [
    make("p", {}, badge(attempt.kind, row.verdict ?? "open"), ` ${SENTENCES[attempt.kind]}`),
    row.reason || row.detail ? make("p", { class: "word" }, make("strong", {}, row.reason || "detail"), row.detail ? `: ${row.detail}` : "") : null,
    make("dl", { class: "figures" }, ...figures([
      ["before", number(row.tokens_before)], ["after", number(row.tokens_after)], ["freed", share],
      ["trigger", row.trigger], ["strategy", row.strategy], ["level", row.level],
      ["round floor", row.floor], ["tool blocks kept", row.blocks_kept], ["dropped", row.blocks_dropped],
      ["calls clipped", row.calls_clipped], ["results clipped", row.results_clipped],
      ["summarizer", row.model], ["calls of it", row.summary_calls], ["tokens it read", number(row.summary_input_tokens)],
      ["of these cached", number(row.summary_cache_read_tokens || null)], ["tokens it wrote", number(row.summary_output_tokens)],
      ["cost", dollars(row.summary_cost)],
      ["took", row.duration_s === null ? "" : `${row.duration_s.toFixed(2)} s`],
      ["began (UTC)", moment(row.started_at)], ["id", row.compaction_id],
    ])),
    attempt.window.length ? bars(attempt) : null,
    beside(attempt),
  ];
  if (attempt.left.length) parts.push(folded(`What left: ${plural(attempt.left.length, "message")}`,
    () => inPages(attempt.left, (seq) => message(seq, "gone", "", text(messages[seq].text, SHORT)))));
  if (attempt.clipped.length) parts.push(folded(`What was shortened: ${plural(attempt.clipped.length, "message")}`,
    () => inPages(attempt.clipped, ([seq, other]) => message(seq, "cut", other === null ? "its original" : "before and after",
      other === null ? null : make("div", { class: "beside" },
        panel("Before", text(messages[seq].text)), panel("After", text(messages[other].text)))))));
  if (attempt.after) parts.push(folded("Diff of the view, before and after", () => diff(attempt), true));
  else if (attempt.before.length) parts.push(folded(`The view that it began with: ${plural(numbersOf(attempt.before).length, "message")}`,
    () => inPages(numbersOf(attempt.before), (seq) => message(seq, "view"))));
  return parts.filter(Boolean);
}

function pressed() {
  const at = state.data.attempts.findIndex((one) => one.row.compaction_id === state.chosen);
  document.querySelectorAll(".mark").forEach((mark) => mark.setAttribute("aria-pressed", String(Number(mark.dataset.index) === at)));
  byId("list").querySelectorAll("tbody tr").forEach((row, index) => {
    if (index === at) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
  });
  return at;
}

let origin = null;
/** Open an attempt; with `go` the focus moves there, and Escape brings it back. */
function choose(index, go) {
  const attempt = state.data.attempts[index];
  if (!attempt) return;
  if (go) origin = document.activeElement;
  state.chosen = attempt.row.compaction_id;
  byId("chosen").textContent = `Compaction ${index + 1} of ${state.data.attempts.length}: ${attempt.row.verdict ?? "open"}`;
  byId("what").replaceChildren(...what(attempt));
  pressed();
  if (!go) return;
  byId("chosen").focus({ preventScroll: true });
  byId("details").scrollIntoView({ block: "nearest" });
}
byId("details").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && origin?.isConnected) origin.focus();
});
