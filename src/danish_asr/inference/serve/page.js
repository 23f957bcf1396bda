const at = (id) => document.getElementById(id);
const audio = document.querySelector("audio");
const maxBytes = document.body.dataset.maxMb * 1e6;
let words = []; // each a word of the answer, with its element
let current = -1;
let running; // the AbortController of the request
let recorder;
const unsaved = new Set(); // "recording", "text"
const LABELS = { txt: "Text file", srt: "Subtitles (SRT)", vtt: "VTT", json: "JSON" };

const clock = (seconds, digits = 0) => {
  const minute = 60 * 10 ** digits;
  const units = Math.round((seconds * minute) / 60);
  const rest = (60 * (units % minute)) / minute;
  return `${Math.floor(units / minute)}:${rest.toFixed(digits).padStart(digits ? 3 + digits : 2, "0")}`;
};

function say(status, error = "") {
  at("error").textContent = error;
  if (at("status").textContent !== status) at("status").textContent = status; // read aloud once
}

/* The times and the confidence of a word are shown, and read aloud. */
function go(index, play) {
  if (!words[index]) return;
  words[current]?.element.classList.remove("here");
  const { text, start, end, confidence, element } = words[(current = index)];
  element.classList.add("here");
  const sure = confidence === null ? "" : `, confidence ${Math.round(100 * confidence)} %`;
  at("about-word").textContent = `${text}: ${clock(start, 2)} to ${clock(end, 2)}${sure}`;
  if (!play) return;
  audio.currentTime = start;
  audio.play().catch(() => {}); // the browser may not know the format
}

function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, properties);
}

function addSegment(segment) {
  const first = words.length;
  const line = element("p", "");
  const channel = segment.channel === null ? "" : `Speaker ${segment.channel + 1}: `;
  const text = element("span", channel);
  for (const word of segment.words) {
    const span = element("span", word.text, { className: "word" });
    const doubt = 1 - (word.confidence ?? 1);
    span.classList.toggle("unsure", doubt > 0.5);
    span.style.setProperty("--doubt", doubt);
    span.dataset.index = words.length;
    words.push({ ...word, element: span });
    text.append(span, " ");
  }
  const play = element("button", clock(segment.start), { type: "button", ariaLabel: `Play from ${clock(segment.start)}` });
  play.addEventListener("click", () => go(first, true));
  line.append(play, text);
  at("text").append(line);
  at("result").hidden = false;
}

function addDownloads(files, name) {
  for (const [format, content] of Object.entries(files)) {
    const href = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
    const download = `${name.replace(/\.[^.]*$/, "")}.${format}`;
    at("downloads").append(element("a", LABELS[format], { className: "button", href, download }));
  }
}

/* The copy has no times. Unlike navigator.clipboard, this works without HTTPS. */
function copyText() {
  const text = [...at("text").children].map((line) => line.lastChild.textContent.trim()).join("\n");
  const take = (event) => (event.preventDefault(), event.clipboardData.setData("text/plain", text));
  getSelection().selectAllChildren(at("text"));
  document.addEventListener("copy", take, { once: true });
  const copied = document.execCommand("copy");
  document.removeEventListener("copy", take);
  at("copy").textContent = copied ? "Copied" : "Selected; copy it with the menu";
  if (copied) unsaved.delete("text");
}

/* Whether other audio may take the place of what is on the page. */
function mayReplace() {
  const busy = at("progress").hidden ? "" : "Cancel first, or wait for the text.";
  const first = recorder ? "Stop the recording first." : busy;
  if (first) say(at("status").textContent, first);
  return !first && (!unsaved.size || confirm(`Not saved: ${[...unsaved].join(", ")}. Delete it from this page?`));
}

function show(message, name) {
  if (message.error) {
    const error = message.error.replace(/^the audio/, name).replace(/convert it: `.*/s, "convert it to WAV or MP3");
    throw new Error(error.replace(/\bname (a|the) recording/, "choose $1 recording"));
  }
  if (message.waiting) say("Waiting: the model is busy with another recording");
  if (message.segment) {
    addSegment(message.segment);
    unsaved.add("text");
    at("copy").textContent = "Copy";
  }
  if ("done" in message) {
    say("Transcribing", at("error").textContent);
    if (message.duration) Object.assign(at("progress"), { max: message.duration, value: message.done });
  }
  if (message.files) {
    say(words.length ? `Done: ${words.length} words in ${clock(message.duration)} of audio` : "Done: no speech found");
    if (words.length) addDownloads(message.files, name);
  }
  return Boolean(message.files);
}

async function transcribe(blob, name) {
  if (blob.size > maxBytes) return say("", `${name} has ${Math.ceil(blob.size / 1e6)} MB. At most ${maxBytes / 1e6} MB are accepted.`);
  at("keep").hidden = at("keep").download !== name;
  if (at("keep").hidden) unsaved.delete("recording");
  unsaved.delete("text");
  running?.abort();
  const request = (running = new AbortController());
  for (const link of at("downloads").querySelectorAll("a")) URL.revokeObjectURL(link.href), link.remove();
  URL.revokeObjectURL(audio.src);
  words = [];
  current = -1;
  at("text").replaceChildren();
  at("about-word").textContent = "";
  at("result").hidden = true;
  at("text-title").textContent = `Text of ${name}`;
  audio.src = URL.createObjectURL(blob);
  at("player").hidden = at("progress").hidden = at("cancel").hidden = false;
  at("progress").removeAttribute("value");
  say(`Sending ${name}`);
  try {
    await blob.slice(0, 1).arrayBuffer().catch(() => {
      throw new Error(`${name} cannot be read. Choose a file on this device, not a folder.`);
    });
    const response = await fetch("transcribe", { method: "POST", body: blob, signal: request.signal });
    say("Transcribing");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let [rest, complete] = ["", false];
    for (let part; !(part = await reader.read()).done; ) {
      const lines = (rest + part.value).split("\n");
      rest = lines.pop();
      for (const line of lines) complete = show(JSON.parse(line), name);
    }
    if (!complete) throw new TypeError("cut off");
  } catch (error) {
    if (request !== running) return;
    const lost = words.length ? "The connection broke. The text is incomplete." : "The machine that runs this page does not answer.";
    if (request.signal.aborted) say(words.length ? "Cancelled. The text is incomplete." : "Cancelled");
    else say("", error instanceof TypeError ? `${lost} Try again, or ask the person who runs it.` : error.message);
    at("player").hidden = !words.length;
  } finally {
    if (request === running) at("progress").hidden = at("cancel").hidden = true;
  }
}

/* Browsers record in formats that they cannot seek in and that need an extra package here. */
async function toWav(recording) {
  const decoded = await new OfflineAudioContext(1, 1, 16000).decodeAudioData(await recording.arrayBuffer());
  const samples = decoded.getChannelData(0);
  const wav = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const size = 2 * samples.length;
  const head = ["RIFF", 36 + size, "WAVE", "fmt ", 16, 0x00010001, 16000, 32000, 0x00100002, "data", size];
  head.forEach((value, place) => {
    if (typeof value === "number") wav.setUint32(4 * place, value, true);
    else [...value].forEach((letter, i) => wav.setUint8(4 * place + i, letter.charCodeAt()));
  });
  samples.forEach((sample, i) => wav.setInt16(44 + 2 * i, 32767 * Math.max(-1, Math.min(1, sample)), true));
  return new Blob([wav], { type: "audio/wav" });
}

async function record() {
  const processing = { echoCancellation: false, noiseSuppression: false };
  say("Allow the microphone if the browser asks");
  at("progress").hidden = false;
  const stream = await navigator.mediaDevices.getUserMedia({ audio: processing }).finally(() => (at("progress").hidden = true));
  const awake = navigator.wakeLock?.request("screen").catch(() => undefined);
  const parts = [];
  const began = Date.now();
  recorder = new MediaRecorder(stream, { audioBitsPerSecond: 128000 });
  const tick = setInterval(() => (at("record").textContent = `Stop (${clock((Date.now() - began) / 1000)})`), 500);
  recorder.ondataavailable = ({ data }) => parts.push(data);
  recorder.onstop = async ({ target }) => {
    clearInterval(tick);
    stream.getTracks().forEach((track) => track.stop());
    awake?.then((lock) => lock?.release());
    recorder = undefined;
    at("record").textContent = "Record";
    at("record").classList.remove("recording");
    const raw = new Blob(parts, { type: target.mimeType });
    say("Preparing the recording");
    at("progress").hidden = false;
    const sound = await toWav(raw).catch(() => raw);
    at("progress").hidden = true;
    if (!sound.size) return say("", "Nothing was recorded.");
    const time = new Date(began).toLocaleString("sv").replaceAll(":", ".");
    const name = `recording ${time}.${sound.type.split(/[/;]/)[1]}`;
    URL.revokeObjectURL(at("keep").href);
    Object.assign(at("keep"), { href: URL.createObjectURL(sound), download: name, hidden: false });
    unsaved.add("recording");
    transcribe(sound, name);
  };
  recorder.start();
  at("record").classList.add("recording");
  say(`Recording, at most ${clock(maxBytes / 32000)}`);
}

at("record").addEventListener("click", () => {
  if (recorder) recorder.stop();
  else if (!navigator.mediaDevices) say("", "Recording does not work at this address (only on localhost or over HTTPS). Record with another app and choose the file.");
  else if (mayReplace()) record().catch(() => say("", "No microphone. Allow it for this page in the browser's settings, and press Record again."));
});
at("file").addEventListener("change", ({ target }) => {
  if (target.files[0] && mayReplace()) transcribe(target.files[0], target.files[0].name);
  target.value = ""; // the same file can be chosen again
});
at("copy").addEventListener("click", copyText);
at("keep").addEventListener("click", () => unsaved.delete("recording"));
at("downloads").addEventListener("click", ({ target }) => target.download && unsaved.delete("text"));
window.addEventListener("beforeunload", (event) => {
  if (recorder || unsaved.size || !at("progress").hidden) event.preventDefault();
});
at("cancel").addEventListener("click", () => running.abort());

for (const type of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(type, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", type === "dragover");
    const [file, more] = event.type === "drop" ? event.dataTransfer.files : [];
    if (more) say(at("status").textContent, "One file at a time.");
    else if (file && mayReplace()) transcribe(file, file.name);
  });
}

const wordOf = ({ target }) => Number(target.dataset?.index ?? -1);
at("text").addEventListener("click", (event) => go(wordOf(event), true));
at("text").addEventListener("pointerover", (event) => go(wordOf(event), false));
at("text").addEventListener("keydown", (event) => {
  if (event.target !== at("text")) return;
  const step = { ArrowRight: 1, ArrowLeft: -1, Enter: 0 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  go(Math.max(0, current + step), event.key === "Enter");
  words[current]?.element.scrollIntoView({ block: "nearest" });
});
audio.addEventListener("timeupdate", () => {
  const now = audio.currentTime;
  for (const { start, end, element } of words) element.classList.toggle("playing", start <= now && now < end && !audio.paused);
});
audio.addEventListener("error", () => {
  if (audio.src) at("about-word").textContent = "This browser cannot play the file. Text and times are not affected.";
});
