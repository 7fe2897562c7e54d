import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { PYTHON_PACKAGES, trainerInstall } from '../../dev/trainer-example.js';
import { createRetrievers } from '../../src/environments/retriever/open-retriever.js';
import { RetrieverSettings } from '../../src/environments/retriever/settings.js';
import { documentsOf, queriesOf, WRITERS } from '../../test/environments/retriever/large-corpus.js';

/**
 * `node --expose-gc --import tsx lab/bench/retriever.ts`: the time and memory of an index of documents with 90 words each,
 * and the time of queries with eight such words, from each format; then the same in Python. Each corpus has a process of
 * its own.
 */
const QUERIES = 500;
const MIB = 2 ** 20;

interface Measured {
  build_s: number;
  again_s: number;
  held: number;
  peak: number;
  times_ms: number[];
}

function heldBytes(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function measure(corpus: string): Promise<Measured> {
  const settings = RetrieverSettings.parse({ kind: 'retriever', corpus });
  const folder = `${corpus}.kept`;
  const opener = () =>
    createRetrievers({ settingsOf: () => settings, folder, env: {}, report: () => undefined });
  const queries = queriesOf(QUERIES);
  const peakBefore = process.resourceUsage().maxRSS;
  const before = heldBytes();
  const startedAt = performance.now();
  const retriever = await opener()('documents');
  const build_s = (performance.now() - startedAt) / 1000;
  const times_ms = queries.map((query) => {
    const asked = performance.now();
    retriever.search(query);
    return performance.now() - asked;
  });
  const held = (heldBytes() - before) / MIB;
  const peak = (process.resourceUsage().maxRSS - peakBefore) / 1024;
  const openedAt = performance.now();
  await opener()('documents');
  const again_s = (performance.now() - openedAt) / 1000;
  return { build_s, again_s, held, peak, times_ms };
}

const PYTHON = `
import json, resource, sys, time
from rollout_environment.retriever import Retriever
corpus, queries = sys.argv[1], json.loads(sys.stdin.read())
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before, began = peak(), time.perf_counter()
retriever = Retriever(corpus, cache=corpus + ".kept-by-python")
build_s, times = time.perf_counter() - began, []
for query in queries:
    asked = time.perf_counter()
    retriever.search(query)
    times.append((time.perf_counter() - asked) * 1000)
most = (peak() - before) / 1024
began = time.perf_counter()
Retriever(corpus, cache=corpus + ".kept-by-python")
print(json.dumps({"build_s": build_s, "again_s": time.perf_counter() - began, "held": None, "peak": most, "times_ms": times}))
`;

function inProcess(
  command: string,
  { args, input = '' }: { args: string[]; input?: string },
): Measured {
  const run = spawnSync(command, args, {
    cwd: PYTHON_PACKAGES,
    encoding: 'utf8',
    input,
    maxBuffer: 2 ** 26,
  });
  if (run.status !== 0) throw new Error(run.stderr);
  return JSON.parse(run.stdout) as Measured;
}

function show(
  what: string,
  { build_s, again_s, held, peak, times_ms }: Omit<Measured, 'held'> & { held: number | null },
): void {
  const sorted = times_ms.toSorted((a, b) => a - b);
  const at = (share: number): string =>
    (sorted[Math.floor(share * sorted.length)] ?? NaN).toFixed(2);
  const cells = [
    what,
    build_s.toFixed(1),
    again_s.toFixed(1),
    held?.toFixed(0) ?? '',
    peak.toFixed(0),
    at(0.5),
    at(0.99),
  ];
  console.log(`| ${cells.join(' | ')} |`);
}

async function all(): Promise<void> {
  console.log(`Node.js ${process.versions.node}, load average ${(loadavg()[0] ?? 0).toFixed(1)}\n`);
  console.log(
    '| corpus | build s | again s | held MB | peak MB | query ms, median | query ms, 99 % |',
  );
  console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: |');
  const folder = await mkdtemp(path.join(tmpdir(), 'bench-retriever-'));
  const python = trainerInstall(process.env);
  try {
    for (const count of [10_000, 100_000]) {
      const texts = documentsOf(count);
      for (const [format, write] of Object.entries(WRITERS)) {
        const corpus = path.join(folder, `${count}.${format}`);
        await write(corpus, texts);
        const args = [
          '--expose-gc',
          '--import',
          import.meta.resolve('tsx'),
          fileURLToPath(import.meta.url),
          corpus,
        ];
        show(`${count} as ${format}`, inProcess(process.execPath, { args }));
      }
      if (!existsSync(python.stamp)) continue;
      const args = ['-c', PYTHON, path.join(folder, `${count}.parquet`)];
      show(
        `${count} in Python`,
        inProcess(python.python, { args, input: JSON.stringify(queriesOf(QUERIES)) }),
      );
    }
  } finally {
    await rm(folder, { recursive: true });
  }
}

const [, , corpus] = process.argv;
if (corpus === undefined) await all();
else console.log(JSON.stringify(await measure(corpus)));
