// Keeps the part of the page that changes up to date: the server sends it whole whenever it differs.
"use strict";
const live = document.getElementById("live");
const state = document.getElementById("connection");
const source = new EventSource("/live" + location.pathname + location.search);
source.onopen = () => { state.textContent = "live"; state.className = "ok"; };
source.onerror = () => { state.textContent = "connection lost, trying again"; state.className = "bad"; };
source.onmessage = (message) => {
  const focused = live.contains(document.activeElement) ? document.activeElement.id : "";
  const scrolled = [...live.querySelectorAll("pre")].map((pre) => pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4);
  live.innerHTML = message.data;
  live.querySelectorAll("pre").forEach((pre, i) => { if (scrolled[i] !== false) pre.scrollTop = pre.scrollHeight; });
  if (focused) document.getElementById(focused)?.focus();
};
