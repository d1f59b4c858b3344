// One compaction: its figures, its summary and what stands beside it, what left, what was shortened, the diff.

const SENTENCES = {
  "committed": "It was committed, and the conversation rests on it.",
  "failed": "It failed. The conversation was left as it was, byte for byte.",
  "put off": "Nothing was compacted.",
  "undone": "It was undone: the model sees again what it had replaced.",
  "redone": "A redo: compactions that had been undone are in force again.",
  "other branch": "It was committed on a branch on which the thread as it is now does not rest.",
  "open": "It has not ended.",
  "prepared": "A summary was made in the background, before it was needed. The reason says whether a compaction used it.",
};

const UNDO = "An undo: the model sees again what the compactions named below had replaced.";
const isAttempt = ({ row }) => row.trigger !== "ahead" && !["undone", "redone"].includes(row.verdict);
/** The numbers of the compactions that an undo or a redo names. */
const named = (row) => row.detail.split(", ").map((name) => `no. ${number(state.data.attempts.findIndex((one) => one.row.compaction_id === name) + 1)}`).join(", ");
const sentenceOf = ({ kind, row }) => (row.verdict === "undone" ? UNDO : SENTENCES[kind]);

function list() {
  const heads = [["no.", "number"], ["verdict"], ["before", "number"], ["after", "number"], ["cost", "number"]];
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
      make("td", { class: "number" }, number(row.tokens_after)),
      make("td", { class: "number" }, spentOn(row)));
  });
  const soon = state.data.frequent, commits = state.data.attempts.filter((one) => one.row.verdict !== "undone" && one.after).length;
  byId("frequent").textContent = soon.length ? `${number(soon.length)} of ${plural(commits, "compaction")} came too soon after others, `
    + `the last one no. ${number(soon[soon.length - 1] + 1)}. Automatic compactions pause after such a one while requests fit. `
    + "The bars show what stays: if that leaves too little room, keep less of it, or give a larger window." : "";
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
    found.push(names[stands].handle === names[seq].handle ? ["=", seq] : ["~", seq, stands]);
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
    if (sign === "-") return message(seq, "gone", "− left the view", contentOf(state.data.messages[seq], SHORT));
    if (sign === "+") return message(seq, "come", "+ came", contentOf(state.data.messages[seq], SHORT));
    return message(seq, "cut", "± shortened", textDiff(whole(state.data.messages[seq]), whole(state.data.messages[other])));
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

/** The price of the calls for a summary, or if it is not known their tokens in and out, in short. */
function spentOn(row) {
  const short = (tokens) => (tokens ?? 0).toLocaleString("en", { notation: "compact" });
  if (!row.summary_calls || !(row.summary_input_tokens || row.summary_output_tokens)) return "";
  return dollars(row.summary_cost) || `${short(row.summary_input_tokens)} / ${short(row.summary_output_tokens)}`;
}

function why(attempt) {
  const { row } = attempt, [window] = attempt.window;
  if (!isAttempt(attempt) && row.detail) return `It was asked for: ${row.verdict} ${named(row)}.`;
  const size = `${plural(row.tokens_before, "token")}${window ? `; trigger ${number(window.trigger)}, limit ${number(window.limit)}` : ""}.`;
  const cause = state.data.causes[row.trigger] ?? `The trigger “${row.trigger}” fired`;
  const end = row.reason || row.detail ? [make("br"), make("strong", {}, row.reason || "detail"), row.detail ? `: ${row.detail}` : ""] : [];
  return make("span", { class: "word" }, `${cause}: ${size}`, ...end);
}

function gone(attempt) {
  const { row, left, clipped, summary } = attempt, { messages } = state.data;
  if (row.verdict === "undone") return "Nothing: the model sees again what had left.";
  if (!attempt.after) return attempt.kind === "committed" ? "Its checkpoint is erased: what left is not known." : "Nothing.";
  const roles = new Map();
  for (const seq of left) roles.set(roleOf(messages[seq]), (roles.get(roleOf(messages[seq])) ?? 0) + 1);
  const by = [...roles].map(([role, count]) => `${number(count)} ${role}`).join(", ");
  return [
    `${plural(left.length, "message")}${by ? ` (${by})` : ""}; ${number(clipped.length)} shortened. `,
    summary === null ? "" : `In their place stands a summary of ${plural(messages[summary].tokens, "token")}, with the user's own words. `,
    row.tokens_after === null ? "" : `${number(row.tokens_before)} → ${number(row.tokens_after)} tokens, ${share(row.tokens_before - row.tokens_after, row.tokens_before)} freed.`,
  ].join("");
}

/** The bill of the summary, and what the changed beginning did to the provider's cache. */
function cost(attempt) {
  const { row } = attempt, { requests } = state.data, next = requests[attempt.at], before = requests[attempt.at - 1];
  const none = attempt.kind === "prepared" ? "In the bill of the compaction that uses it." : "No call for a summary.";
  const tokens = row.summary_input_tokens || row.summary_output_tokens
    ? [`input ${number(row.summary_input_tokens ?? 0)}`, `cache read ${number(row.summary_cache_read_tokens ?? 0)}`,
      `cache write ${number(row.summary_cache_write_tokens ?? 0)}`, `output ${number(row.summary_output_tokens ?? 0)} tokens`]
    : ["tokens not reported"];
  const calls = !row.summary_calls ? none : [`${plural(row.summary_calls, "call")} for the summary${row.model ? ` (${row.model})` : ""}`,
    ...tokens, dollars(row.summary_cost) || "price not known"].join(", ") + ".";
  const cached = (one) => `${number(one.cached)} of ${number(one.tokens)}`;
  const effect = attempt.after && next?.real && (next.cached || before?.cached)
    ? ` The next request read ${cached(next)} tokens from the cache${before?.real ? `, the one before ${cached(before)}` : ""}.` : "";
  const took = row.duration_s === null ? "" : ` It took ${row.duration_s.toFixed(2)} s.`;
  return calls + took + effect;
}

const quoted = (name) => (/^[\w.:@-]+$/.test(name) && !name.startsWith("-") ? name : `'${name.replaceAll("'", "'\\''")}'`);
function back(attempt) {
  const { attempts, thread, held, redo } = state.data, index = attempts.indexOf(attempt), name = attempt.row.compaction_id;
  const { row } = attempt;
  const live = Boolean(document.body.dataset.key), parts = [];
  const command = (more) => make("code", {}, `langgraph-compaction undo ${quoted(thread)} `, ...`${more}--db URL`.split(" ")
    .flatMap((part) => [make("span", { class: "option" }, part), " "]).slice(0, -1));
  const button = (words, what, given) => make("button", { type: "button", onclick: () => act(what, given) }, words);
  if (attempt.kind === "committed") {
    const later = attempts.filter((one, at) => at > index && one.kind === "committed").length;
    if (later) parts.push(`Undoes also the ${plural(later, "later compaction")} in force. `);
    parts.push(...(live ? [button("Undo", "undo", { compaction: name })] : [command(`${name} `), " or in Python ", make("code", {}, `thread.undo("${name}")`), ". Where the next request would then be over the limit, it asks for ", make("code", {}, "--force"), " (", make("code", {}, "force=True"), ")."]));
  } else if (redo && (name === redo || (row.verdict === "undone" && row.detail.split(", ").includes(redo)))) {
    parts.push("To bring it back, as long as nothing was compacted since: ", live ? button("Redo", "redo", {}) : command("--redo "));
  } else parts.push("There is nothing to undo.");
  if (held) parts.push(make("br"), "Automatic compactions pause since the last undo, while requests fit. ", live ? button("Release", "release", {}) : command("--release "));
  return make("span", {}, ...parts);
}

function glance(attempt) {
  return make("dl", { class: "glance" }, ...[["Why", why], ["What left", gone], ["Cost", cost], ["Undo", back]]
    .map(([name, tellOf]) => make("div", {}, make("dt", {}, name), make("dd", {}, tellOf(attempt)))));
}

function what(attempt) {
  const { row, messages } = { ...attempt, messages: state.data.messages };
  const parts = [
    make("p", {}, badge(attempt.kind, row.verdict ?? "open"), ` ${sentenceOf(attempt)}`),
    glance(attempt),
    attempt.window.length ? bars(attempt) : null,
    attempt.after && state.data.requests[attempt.at] ? make("button", { type: "button", onclick: () => ask(attempt.at) }, "Read the next request") : null,
    folded("All figures", () => make("dl", { class: "figures" }, ...figures([
      ["before", number(row.tokens_before)], ["after", number(row.tokens_after)],
      ["trigger", row.trigger], ["strategy", row.strategy],
      ["rounds kept", row.floor], ["tool blocks kept", row.blocks_kept], ["tool blocks dropped", row.blocks_dropped],
      ["messages dropped", attempt.after ? attempt.left.length : null],
      ["calls clipped", row.calls_clipped], ["results clipped", row.results_clipped], ["summarizer", row.model],
      ["took", row.duration_s === null ? "" : `${row.duration_s.toFixed(2)} s`],
      ["began (UTC)", moment(row.started_at)], ["id", row.compaction_id], ["checkpoint", row.checkpoint_id],
    ]))),
    beside(attempt),
  ];
  if (attempt.left.length) parts.push(folded(`What left: ${plural(attempt.left.length, "message")}`,
    () => inPages(attempt.left, (seq) => message(seq, "gone", "", contentOf(messages[seq], SHORT)))));
  if (attempt.clipped.length) parts.push(folded(`What was shortened: ${plural(attempt.clipped.length, "message")}`,
    () => inPages(attempt.clipped, ([seq, other]) => message(seq, "cut", other === null ? "its original" : "before and after",
      other === null ? null : make("div", { class: "beside" },
        panel("Before", contentOf(messages[seq])), panel("After", contentOf(messages[other])))))));
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
    const box = row.closest(".scroll");
    if (index === at && box) box.scrollTop = row.offsetTop - box.clientHeight / 2;
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
  byId("chosen").textContent = `No. ${index + 1} of ${state.data.attempts.length}: ${attempt.row.verdict ?? "open"}${attempt.kind === "undone" && isAttempt(attempt) ? ", undone" : ""}`;
  byId("what").replaceChildren(...what(attempt));
  pressed();
  if (!go) return;
  byId("chosen").focus({ preventScroll: true });
  byId("details").scrollIntoView({ block: "nearest" });
}
byId("details").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && origin?.isConnected) origin.focus();
});
