// Perfetto's trace processor as it runs in the browser, on one file: node perfetto.js ENGINE_DIRECTORY FILE
// Prints the seconds from the first byte given to it until it has sorted everything, and its counts of slices, links and
// slices that it dropped.
const fs = require('fs');
const path = require('path');
const [directory, file] = process.argv.slice(2);

const listeners = {};
globalThis.self = globalThis;
self.location = {href: 'file://' + directory + '/engine_bundle.js', pathname: directory + '/', protocol: 'file:'};
self.addEventListener = (name, callback) => { listeners[name] = callback; };
globalThis.importScripts = () => {};
globalThis.WorkerGlobalScope = function () {};
globalThis.XMLHttpRequest = class {
  open(_, url) { this.url = url; }
  send() {
    const data = fs.readFileSync(path.join(directory, path.basename(this.url)));
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
    this.status = 200;
    if (this.onload) this.onload();
  }
};
globalThis.fetch = async (url) => new Response(fs.readFileSync(path.join(directory, path.basename(String(url)))),
  {headers: {'Content-Type': 'application/wasm'}});
const realProcess = process;
globalThis.process = undefined;
require('vm').runInThisContext(fs.readFileSync(path.join(directory, 'engine_bundle.js'), 'utf8'));
globalThis.process = realProcess;

const {port1, port2} = new MessageChannel();
const varint = (value) => { const out = []; while (value > 127) { out.push(value % 128 + 128); value = Math.floor(value / 128); } out.push(value); return out; };
const field = (number, bytes) => Buffer.concat([Buffer.from(varint(number * 8 + 2)), Buffer.from(varint(bytes.length)), bytes]);
let sequence = 0;
const send = (method, body) => {
  const message = Buffer.concat([Buffer.from([8, ...varint(sequence++), 16, method]), body]);
  port1.postMessage(new Uint8Array(field(1, message)));
};
const waiting = [];
port1.on('message', (data) => { const next = waiting.shift(); if (next) next(data); });
const answer = () => new Promise((resolve) => waiting.push(resolve));

(async () => {
  const handler = self.onmessage || listeners.message;
  handler({data: port2});
  const handle = fs.openSync(file, 'r');
  const block = Buffer.alloc(32 << 20);
  await new Promise((resolve) => setTimeout(resolve, 1500)); // until the engine is up
  const begun = performance.now();
  for (;;) {
    const count = fs.readSync(handle, block, 0, block.length);
    if (!count) break;
    const done = answer();
    send(1, field(101, Buffer.from(block.subarray(0, count))));
    await done;
  }
  const done = answer();
  send(2, Buffer.alloc(0));
  await done;
  const seconds = (performance.now() - begun) / 1000;
  const result = answer();
  send(3, field(103, field(1, Buffer.from(
    "select 'slices ' || (select count(*) from slice) || ' flows ' || (select count(*) from flow) || ' dropped ' || " +
    "(select ifnull(sum(value), 0) from stats where name like 'slice_drop%' or name like 'flow_%') || ' end' as n"))));
  const text = Buffer.from(await result);
  const [, slices, flows, dropped] = /slices (\d+) flows (\d+) dropped (\d+) end/.exec(text.toString('latin1')).map(Number);
  const usage = process.resourceUsage();
  const cpu = (usage.userCPUTime + usage.systemCPUTime) / 1e6;
  console.log('\n' + JSON.stringify({seconds, cpu, peak: usage.maxRSS * 1024, slices, flows, dropped}));
  process.exit(0);
})();
