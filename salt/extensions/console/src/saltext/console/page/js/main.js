// The shell: signing in, navigation, theme.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { expired, session, signIn, signOut, stale } from "./api.js";
import { Fleet } from "./fleet.js";
import { Load, running } from "./load.js";
import { Minion } from "./minion.js";
import { Dialogs, html, said, text } from "./parts.js";
import { Queue } from "./queue.js";
import { States, Where } from "./states.js";

const PAGES = { queue: ["Queue", Queue], fleet: ["Fleet", Fleet], states: ["Package states", States], minion: ["Minion", Minion], package: ["Package", Where], load: ["Load run", Load] };
/** Pages that others lead to. */
const INNER = { minion: "fleet", package: "states" };
const place = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
const route = signal(place());
addEventListener("hashchange", () => {
  route.value = place();
  document.querySelector("main")?.focus();
});

const theme = signal(localStorage.getItem("theme") ?? "");
function turn() {
  const dark = theme.value ? theme.value === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme.value = dark ? "light" : "dark";
  localStorage.setItem("theme", theme.value);
  document.documentElement.dataset.theme = theme.value;
}
if (theme.value) document.documentElement.dataset.theme = theme.value;

function SignIn({ again }) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    setBusy(true);
    setError("");
    try {
      const eauth = String(form.get("eauth"));
      await signIn(form.get("username"), form.get("password"), eauth);
      localStorage.setItem("eauth", eauth);
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  };
  return html`<form class="sign" onSubmit=${submit}>
    <h1>Sign in to Salt</h1>
    ${again && html`<p class="note">${again}</p>`}
    <label>User <input name="username" autocomplete="username" required defaultValue=${session.value?.user ?? ""} /></label>
    <label>Password <input name="password" type="password" autocomplete="current-password" required /></label>
    <label>Kind of account (eauth) <input name="eauth" required defaultValue=${session.value?.eauth ?? localStorage.getItem("eauth") ?? "pam"} /></label>
    ${error && html`<p class="note bad" role="alert">${text(error)}</p>`}
    <button class="do" disabled=${busy}>Sign in</button>
  </form>`;
}

/** Signing in again lies over the page, which stays as it is. */
function Again() {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog ref=${dialog} aria-label="Sign in again" onCancel=${(event) => event.preventDefault()}><${SignIn} again=${expired.value} /></dialog>`;
}

function Shell() {
  if (!session.value) return html`<main tabindex="-1"><${SignIn} /></main>`;
  const [first, ...rest] = route.value;
  const [title, Page] = PAGES[first] ?? PAGES.queue;
  const current = INNER[first] ?? first;
  document.title = `${title} – Salt console`;
  return html`<header>
      <strong>Salt console</strong>
      <nav aria-label="Pages">${Object.entries(PAGES).filter(([key]) => !(key in INNER) && (key !== "load" || running.value)).map(([key, [name, one]]) => html`<a href=${`#/${key}`} aria-current=${one === Page || key === current ? "page" : null}>${name}</a>`)}</nav>
      <span>${text(session.value.user)}</span>
      <button onClick=${turn}>Dark or light</button>
      <button onClick=${signOut}>Sign out</button>
    </header>
    ${stale.value && html`<p class="note bad" role="status">${stale.value}</p>`}
    <main tabindex="-1"><${Page} key=${route.value.join("/")} path=${rest} /></main>
    <div class="sr" aria-live="polite">${said.value}</div>
    <${Dialogs} />
    ${expired.value && html`<${Again} />`}`;
}

document.querySelector("noscript")?.remove();
render(html`<${Shell} />`, document.body);
