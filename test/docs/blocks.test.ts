/** Every block of every page is run by a test as it is printed, or checked, or shows what no test can run. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import type { Run, Shown } from './checks/blocks.js';
import { blockProblems, runsIn } from './checks/blocks.js';
import { asLines, pageOf } from './checks/page.js';
import { pagesOf, readRepository } from './checks/repository.js';

const repository = await readRepository(PROJECT_ROOT);
const pages = await Promise.all(
  pagesOf(repository).map(async (file) =>
    pageOf(file, await readFile(path.join(PROJECT_ROOT, file), 'utf8')),
  ),
);
const runs = runsIn(repository.sources);

const MEASURED = 'what was measured';

// One case a line.
// prettier-ignore
const SHOWN: Shown[] = [
  { page: 'ARCHITECTURE.md', has: 'sequenceDiagram', why: 'a drawing' },
  { page: 'ARCHITECTURE.md', has: 'src/workflows/  ', why: 'a map; pages.test.ts checks its paths' },
  { page: 'README.md', has: 'flowchart LR', why: 'a drawing' },
  { page: 'lab/bench/TABLES.md', has: 'bounds, CPU of server and worker', why: MEASURED },
  { page: 'lab/bench/TABLES.md', has: '10000 rollouts x 5 turns', why: MEASURED },
  { page: 'docs/agents.md', has: 'from openai import OpenAI', why: 'it needs a package that tests do not have; try-examples.mjs plays its twin, examples/agent-service' },
  { page: 'docs/batches.md', has: 'batch.set_limits(', why: 'it needs a batch that runs; test_batches.py of python/tests/stack steers one' },
  { page: 'docs/deployment.md', has: '  - value: true', why: 'the Temporal server reads it; the dev server is given the same' },
  { page: 'docs/deployment.md', has: '[Service]', why: 'systemd reads it' },
  { page: 'docs/environments.md', has: 'stepOne({ message_log', why: 'an excerpt of guess.ts, which environment-types.test.ts compiles' },
  { page: 'docs/operations.md', has: '[Service]', why: 'systemd reads it' },
  { page: 'docs/operations.md', has: 'unfinished  GenerationUnavailable', why: 'what three commands print while an engine is away; tests of board, check and show have each' },
  { page: 'docs/disk.md', has: 'delete from durable_rollouts.journal', why: 'PostgreSQL reads it' },
  { page: 'docs/scale.md', has: 'rollouts in flight', why: 'plan.test.ts compares it with what the command prints' },
  { page: 'docs/stream.md', has: 'range(trained, 500)', why: 'an excerpt of examples/trainer/stream.py, which test/long/trainer.test.ts plays' },
  { page: 'docs/trl.md', has: 'trl import Publish', why: 'it needs TRL, a model and a data set; test/interop/trl.test.ts trains with its twin' },
  { page: 'docs/trl.md', has: 'trl.asynchronous import', why: 'it needs TRL, a model and a data set; test/interop/trl-async.test.ts trains with its twin' },
  { page: 'docs/prime-rl.md', has: 'integrations.prime_rl orchestrator.toml', why: 'it needs prime-rl; test/interop/prime-rl.test.ts starts it' },
  { page: 'docs/prime-rl.md', has: 'rollout_transport', why: 'test_parts.py of python/tests/prime_rl reads it' },
  { page: 'docs/trainers.md', has: 'async def step(number', why: 'an excerpt; many_rollouts.py of test/long/single-rollouts.test.ts asks likewise' },
  { page: 'docs/verl.md', has: 'agent_loop.DurableAgentLoop', why: 'verl reads it; test/interop/verl.test.ts has its twin' },
  { page: 'docs/verl.md', has: 'VERL_USE_EXTERNAL_MODULES', why: 'it needs GPUs; test/interop/verl.test.ts trains without' },
  { page: 'docs/skyrl.md', has: 'trainer.override_entrypoint', why: 'it needs GPUs; test/interop/skyrl.test.ts trains without' },
  { page: 'docs/training-data.md', has: '// and more', why: 'an excerpt of a row' },
  { page: 'docs/training-data.md', has: 'call 0 ── call 1', why: 'a drawing' },
  { page: 'examples/gpu/README.md', has: 'pip install vllm==0.32.0', why: 'it needs GPUs; gpu-example.test.ts plays its refusal' },
  { page: 'examples/gpu/README.md', has: 'check.py --cpu', why: 'it needs vLLM and minutes; test/interop/gpu-example.test.ts plays it' },
  { page: 'examples/trl/README.md', has: '--trainer trl', why: 'it needs TRL and minutes; test/interop/trl.test.ts trains with its parts' },
];

test('pages have blocks, and tests run some', () => {
  assert.ok(pages.flatMap(({ blocks }) => blocks).length > 50);
  assert.ok(runs.length > 10, `${runs.length} calls of exampleIn`);
});

describe('each block is run, checked or explained', () => {
  for (const page of pages)
    test(page.file, () => {
      assert.deepEqual(asLines(blockProblems(page, { runs, shown: SHOWN })), []);
    });
});

test('each example that a test runs, and each that is explained, is one block of its page', () => {
  const blocksWith = ({ page, has }: Pick<Run, 'page' | 'has'>): number =>
    pages.find(({ file }) => file === page)?.blocks.filter(({ text }) => text.includes(has))
      .length ?? 0;
  for (const one of [...runs, ...SHOWN]) assert.equal(blocksWith(one), 1, JSON.stringify(one));
});
