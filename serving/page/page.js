"use strict";

const query = new URLSearchParams(location.search);
const VIDEO = query.get("video") || "v1";
const TITLE = query.get("title") || "Big Buck Bunny";
const COMMENTS = [
  ["Ada", "The rabbit had it coming. No, wait: the squirrels did."],
  ["Grace", "Rendered on a farm that is slower than the phone I watch this on."],
  ["Linus", "Ten years later and still the best test video."],
  ["Margaret", "The apple scene gets me every time."],
  ["Barbara", "Subtitles, please."],
].map(([by, text], place) => ({ id: `${VIDEO}:c${place + 1}`, by, text }));
const IDS = [VIDEO, ...COMMENTS.map((comment) => comment.id)];

const counts = new Map();
const mine = new Map();
const tokens = new Map();
const views = new Map();
let bearer = null;
let signedIn = "";
let stream = null;

const at = (id) => document.getElementById(id);

function notice(text) {
  at("notice").hidden = !text;
  at("notice").textContent = text || "";
}

function headers(extra) {
  const made = { ...extra };
  if (bearer) made.Authorization = `Bearer ${bearer}`;
  const own = [...tokens].filter(([id]) => IDS.includes(id)).map(([, kept]) => kept.token);
  if (own.length) made["Read-Your-Write"] = own.join(",");
  return made;
}

function show(id) {
  const view = views.get(id);
  const count = counts.get(id);
  if (count && count.likes !== null) {
    view.likes.textContent = count.likes.toLocaleString("en");
    view.dislikes.textContent = count.dislikes.toLocaleString("en");
  }
  const reaction = mine.get(id);
  view.like.setAttribute("aria-pressed", String(reaction === "LIKE"));
  view.dislike.setAttribute("aria-pressed", String(reaction === "DISLIKE"));
}

function parts(reaction) {
  return [Number(reaction === "LIKE"), Number(reaction === "DISLIKE")];
}

// Answers may overtake each other; one that was asked for before the last tap, or before what is shown, is too old.
let asks = 0;
const shownAt = new Map();

async function refresh() {
  const ask = ++asks;
  const asked = new URLSearchParams(IDS.map((id) => ["id", id]));
  const answer = await fetch(`/v1/counts?${asked}`, { headers: headers() });
  if (!answer.ok) throw new Error((await answer.json()).detail);
  const body = await answer.json();
  for (const count of body.counts) {
    if (queues.has(count.content_id)) continue; // a tap is under way; what it makes of the count is shown already
    if (ask < (shownAt.get(count.content_id) || 0)) continue;
    shownAt.set(count.content_id, ask);
    counts.set(count.content_id, count);
    if (count.my_reaction) mine.set(count.content_id, count.my_reaction);
    show(count.content_id);
  }
  notice(body.degraded ? "Some services are away; counts may be old." : "");
}

// Tokens outlive a reload; after ten minutes the totals have long caught up.
const TOKENS_LIVE_MS = 600000;

function keepTokens() {
  for (const [id, kept] of tokens) if (Date.now() - kept.at > TOKENS_LIVE_MS) tokens.delete(id);
  localStorage.setItem("tokens", JSON.stringify({ user: signedIn, tokens: [...tokens] }));
}

function findTokens(user) {
  tokens.clear();
  try {
    const kept = JSON.parse(localStorage.getItem("tokens"));
    if (kept && kept.user === user) for (const [id, token] of kept.tokens) tokens.set(id, token);
  } catch {
    localStorage.removeItem("tokens");
  }
  signedIn = at("user").value = user;
  keepTokens();
}

let refreshing = null;

function refreshSoon() {
  refreshing = refreshing || setTimeout(() => {
    refreshing = null;
    refresh().catch((error) => notice(error.message));
  }, 100);
}

// crypto.randomUUID is for pages from localhost or over HTTPS alone.
function unique() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// One tap after the other on each content, so that they arrive in the order in which they were made.
const queues = new Map();

function tap(id, wanted) {
  const before = mine.get(id) || "NONE";
  const after = before === wanted ? "NONE" : wanted;
  const count = counts.get(id);
  mine.set(id, after);
  if (count && count.likes !== null) {
    const [gained, lost] = [parts(after), parts(before)];
    count.likes += gained[0] - lost[0];
    count.dislikes += gained[1] - lost[1];
  }
  show(id);
  const earlier = queues.get(id) || Promise.resolve();
  const who = bearer;
  const sent = earlier.then(() => send(id, before, after, who));
  queues.set(id, sent);
  sent.then(() => {
    if (queues.get(id) !== sent) return; // the next one will ask
    queues.delete(id);
    shownAt.set(id, asks + 1);
    refresh().catch((error) => notice(error.message));
  });
}

async function send(id, before, after, who) {
  try {
    const answer = await fetch(`/v1/reactions/${encodeURIComponent(id)}`, {
      method: "PUT",
      headers: { ...headers({ "Content-Type": "application/json", "Idempotency-Key": unique() }), Authorization: `Bearer ${who}` },
      body: JSON.stringify({ reaction: after }),
    });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.detail);
    if (who !== bearer) return; // somebody else has signed in meanwhile
    tokens.set(id, { token: body.token, at: Date.now() });
    keepTokens();
    notice("");
  } catch (error) {
    mine.set(id, before);
    notice(`Not saved: ${error.message}`);
  }
}

function follow() {
  if (stream) stream.close();
  const asked = new URLSearchParams(IDS.map((id) => ["id", id]));
  stream = new EventSource(`/v1/stream?${asked}`);
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 5000); // refused, not interrupted
  });
  stream.addEventListener("count", (event) => {
    const count = JSON.parse(event.data);
    if (tokens.has(count.content_id) || queues.has(count.content_id)) {
      refreshSoon(); // only the server can tell whether the own tap is in it
    } else {
      const known = counts.get(count.content_id);
      if (known && known.version > count.version) return;
      counts.set(count.content_id, count);
      show(count.content_id);
    }
  });
}

async function signIn(user) {
  const answer = await fetch(`/dev/token/${encodeURIComponent(user)}`, { method: "POST" });
  bearer = answer.ok ? (await answer.json()).token : null;
  if (!bearer) notice("This service takes tokens from somebody else, so this page can only read.");
  localStorage.setItem("user", user);
  findTokens(user);
  mine.clear();
  await refresh();
}

function build() {
  at("title").textContent = TITLE;
  document.title = `${TITLE} · likes counter`;
  const make = (id, place) => {
    const reactions = at("reactions").content.cloneNode(true).firstElementChild;
    const view = {
      like: reactions.querySelector(".like"),
      dislike: reactions.querySelector(".dislike"),
      likes: reactions.querySelector(".likes"),
      dislikes: reactions.querySelector(".dislikes"),
    };
    view.like.addEventListener("click", () => tap(id, "LIKE"));
    view.dislike.addEventListener("click", () => tap(id, "DISLIKE"));
    views.set(id, view);
    place.append(reactions);
  };
  make(VIDEO, at("video-actions"));
  for (const comment of COMMENTS) {
    const item = document.createElement("li");
    const by = document.createElement("span");
    const text = document.createElement("p");
    by.className = "by";
    by.textContent = comment.by;
    text.textContent = comment.text;
    item.append(by, text);
    make(comment.id, item);
    at("comments").append(item);
  }
}

const history = { rate: [], age: [], lag: [] };
const KEPT = 120;

function draw(id, values) {
  const svg = at(id);
  const most = Math.max(1, ...values);
  const step = 300 / (KEPT - 1);
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${(76 - (value / most) * 62).toFixed(1)}`);
  svg.innerHTML = "";
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", points.length ? `M${points.join("L")}` : "");
  const label = document.createElementNS("http://www.w3.org/2000/svg", "text");
  label.setAttribute("x", "2");
  label.setAttribute("y", "10");
  label.textContent = `most ${most.toLocaleString("en", { maximumFractionDigits: 1 })}`;
  svg.append(path, label);
}

async function operations() {
  const answer = await fetch("/v1/operations");
  const now = await answer.json();
  const age = now.staleness_ms === null ? 0 : now.staleness_ms / 1000;
  const put = (list, value) => {
    list.push(value);
    if (list.length > KEPT) list.shift();
  };
  put(history.rate, now.events_per_s);
  put(history.age, age);
  put(history.lag, now.lag);
  const figures = [
    ["events", now.events.toLocaleString("en")],
    ["events/s", now.events_per_s.toLocaleString("en")],
    ["lag", now.lag.toLocaleString("en")],
    ["staleness", now.staleness_ms === null ? "not known" : `${age.toFixed(1)} s`],
    ["dead letters", now.dead_letters.toLocaleString("en")],
    ["streams", now.streams],
    ["generation", now.generation ?? "none"],
  ];
  at("figures").replaceChildren(...figures.map(([name, value]) => {
    const pair = document.createElement("div");
    const term = document.createElement("dt");
    const text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value;
    pair.append(term, text);
    return pair;
  }));
  at("services").replaceChildren(...Object.entries(now.dependencies).map(([name, it]) => {
    const item = document.createElement("li");
    item.textContent = it.up ? `✓ ${name}` : `✗ ${name}: ${it.detail}`;
    return item;
  }));
  const hot = new Map();
  for (const item of now.hot_reads) hot.set(item.content_id, [item.per_s, 0]);
  for (const item of now.hot_writes) hot.set(item.content_id, [(hot.get(item.content_id) || [0])[0], item.per_s]);
  at("hot").replaceChildren(...[...hot].map(([id, [reads, writes]]) => {
    const row = document.createElement("tr");
    for (const value of [id, reads, writes]) {
      const cell = document.createElement("td");
      cell.textContent = value;
      row.append(cell);
    }
    return row;
  }));
  draw("chart-rate", history.rate);
  draw("chart-age", history.age);
  draw("chart-lag", history.lag);
}

function turn() {
  const wanted = location.hash === "#operations" ? "operations" : "watch";
  for (const view of ["watch", "operations"]) {
    at(view).hidden = view !== wanted;
    if (view === wanted) at(`to-${view}`).setAttribute("aria-current", "page");
    else at(`to-${view}`).removeAttribute("aria-current");
  }
}

at("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(at("user").value).catch((error) => notice(error.message));
});
addEventListener("hashchange", turn);
build();
turn();
signIn(query.get("user") || localStorage.getItem("user") || `guest-${unique().slice(0, 8)}`)
  .catch((error) => notice(error.message))
  .finally(follow);
setInterval(() => {
  if (!at("operations").hidden) operations().catch((error) => notice(error.message));
}, 1000);
setInterval(() => {
  if (!tokens.size) return;
  keepTokens();
  refresh().catch(() => {});
}, 3000);
