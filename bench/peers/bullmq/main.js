// Runs one workload of asynq-bench with BullMQ: `node main.js ROLE ORDER URL`, one line of JSON on standard output.
//
// ROLE is "fill", which enqueues the jobs that a drain starts from, or "measure". ORDER is the JSON of an order of asynq-bench.
// Every option that an order does not name keeps BullMQ's default, but for one: a job that ended is deleted, as the other
// libraries do. The program ends with its standard input, which asynq-bench keeps open.
import { Queue, Worker } from "bullmq";

// How many calls are under way at once before a drain, and in the end-to-end workload, as asynq-bench has.
const PRODUCERS = 64;
// Jobs per call where a call takes many.
const FILL = 1000;
// Milliseconds between two jobs of the latency workload, and how many of them are not measured.
const BETWEEN = 137;
const WARM_UP = 10;

process.stdin.on("end", () => process.exit(1)).resume();

const [role, text, url] = process.argv.slice(2);
const order = JSON.parse(text);
const connection = { host: new URL(url).hostname, port: Number(new URL(url).port), maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: true } });
queue.on("error", fail);

const answer = await play();
// A pipe takes 64 KiB at a time: the program must not end before it has taken all.
process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));

async function play() {
  if (order.queues > 1) return { cannot: "a BullMQ worker serves one queue" };
  if (role === "fill") {
    await bulk(order.among ?? order.n, FILL);
    return { waiting: await queue.getWaitingCount() };
  }
  switch (order.workload) {
    case "enqueue":
    case "enqueue-concurrent": {
      await queue.waitUntilReady();
      const clock = start();
      const micros = await enqueue(order.n, order.workload === "enqueue" ? 1 : order.concurrency);
      return { ...stop(clock), micros, waiting: await queue.getWaitingCount() };
    }
    case "enqueue-bulk": {
      await queue.waitUntilReady();
      const clock = start();
      const micros = await bulk(order.n, order.batch);
      return { ...stop(clock), micros, waiting: await queue.getWaitingCount() };
    }
    case "drain": {
      const clock = start();
      const seen = serve();
      await seen.all;
      return { ...stop(clock), ran: order.n, again: seen.again };
    }
    case "end-to-end": {
      const seen = serve();
      await seen.worker.waitUntilReady();
      const clock = start();
      const micros = await enqueue(order.n, PRODUCERS);
      await seen.all;
      return { ...stop(clock), micros, ran: order.n, again: seen.again };
    }
    case "latency":
      return latency();
    case "idle":
      new Worker("bench", async () => {}, { connection, concurrency: order.concurrency }).on("error", fail);
      return new Promise(() => {});
  }
  return { cannot: "no such workload" };
}

function task(number) {
  const data = { number, to: "ann@example.com", subject: "Hi", body: "" };
  const frame = '{"number":,"to":"ann@example.com","subject":"Hi","body":""}'.length + String(number).length;
  data.body = "x".repeat(Math.max(0, order.payload_bytes - frame));
  return data;
}

// Adds jobs 0 to n-1 from so many callers; resolves to the microseconds of each call.
async function enqueue(n, callers) {
  const micros = [];
  const share = Math.ceil(n / callers);
  const caller = async (first) => {
    for (let number = first; number < Math.min(n, first + share); number++) {
      const called = process.hrtime.bigint();
      await queue.add("note", task(number));
      micros.push(Number((process.hrtime.bigint() - called) / 1000n));
    }
  };
  const firsts = Array.from({ length: callers }, (_, at) => at * share);
  await Promise.all(firsts.map(caller));
  return micros;
}

// Adds jobs 0 to n-1, so many per call; resolves to the microseconds of each call.
async function bulk(n, batch) {
  const micros = [];
  for (let first = 0; first < n; first += batch) {
    const called = process.hrtime.bigint();
    const jobs = Array.from({ length: Math.min(batch, n - first) }, (_, at) => ({ name: "note", data: task(first + at) }));
    await queue.addBulk(jobs);
    micros.push(Number((process.hrtime.bigint() - called) / 1000n));
  }
  return micros;
}

// Starts a worker; `all` resolves when as many different jobs as the order asks for have run and are acknowledged.
function serve() {
  const bits = new Uint8Array(order.among ?? order.n);
  const seen = { again: 0 };
  seen.all = new Promise((resolve) => {
    let acknowledged = 0;
    seen.worker = new Worker(
      "bench",
      async (job) => {
        if (bits[job.data.number]) seen.again++;
        bits[job.data.number] = 1;
      },
      { connection, concurrency: order.concurrency },
    );
    seen.worker.on("error", fail);
    seen.worker.on("failed", (job, error) => fail(error));
    seen.worker.on("completed", () => {
      if (++acknowledged === order.n) resolve();
    });
  });
  return seen;
}

async function latency() {
  const micros = [];
  const worker = new Worker(
    "bench",
    async (job) => {
      const now = process.hrtime.bigint();
      if (job.data.number >= WARM_UP) micros.push(Number((now - BigInt(job.data.moment)) / 1000n));
    },
    { connection, concurrency: order.concurrency },
  );
  worker.on("error", fail);
  const all = new Promise((resolve) => {
    worker.on("completed", () => {
      if (micros.length === order.n) resolve();
    });
  });
  await worker.waitUntilReady();
  for (let number = 0; number < order.n + WARM_UP; number++) {
    await queue.add("stamp", { number, moment: String(process.hrtime.bigint()) });
    await new Promise((resolve) => setTimeout(resolve, BETWEEN));
  }
  await all;
  return { micros, ran: micros.length };
}

function start() {
  return { began: process.hrtime.bigint(), used: process.cpuUsage() };
}

function stop(clock) {
  const seconds = Number(process.hrtime.bigint() - clock.began) / 1e9;
  const used = process.cpuUsage(clock.used);
  return { seconds, cpu_us: used.user + used.system };
}

function fail(error) {
  console.error(error);
  process.exit(1);
}
