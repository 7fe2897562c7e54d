import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { after, before, test } from 'node:test';
import type { GenerationService } from '../../src/generation/generation-service.js';
import { probeLogprobsMode } from '../../src/generation/logprobs-probe.js';
import type { GenerationSettings } from '../../src/model/generation-settings.js';
import type { Row } from '../../src/model/results/row.js';
import { activityBench, AT } from '../fakes/activity-bench.js';
import { GENERATION } from '../fakes/journal-lines.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { BATCH } from '../fakes/temporary-store.js';
import { openEngine, rawBaseUrl, suite, WITHOUT_ENGINE, WITHOUT_RAW_ENGINE } from './engine.js';
import { LOGPROB_TOLERANCE, promptOf, SPECIAL_TOKENS } from './play.js';
import { torchLogprobs } from './torch-logprobs.js';

const TEMPERATURE = 0.7;
const ROLLOUTS = 24;

/** The row of a rollout of one turn, sampled and closed. */
async function rowOf(
  t: TestContext,
  given: { service: GenerationService; seed: number; generation?: Partial<GenerationSettings> },
): Promise<Row> {
  const { service, seed, generation = {} } = given;
  const bench = await activityBench(t, {
    replicas: [service],
    environment: scriptedEnvironment([{ terminated: true }]),
    special_tokens: SPECIAL_TOKENS,
  });
  const settings = {
    ...GENERATION,
    temperature: TEMPERATURE,
    max_new_tokens: 60,
    seed,
    ...generation,
  };
  const token_ids = promptOf(seed);
  await bench.started({
    settings: { model: 'tiny', max_seq_len: 512, generation: settings },
    prompt: [{ role: 'user', content: 'go', token_ids }],
  });
  await bench.result('playTurns', AT);
  await bench.result('closeBatch', { batch_id: BATCH, stopped: false });
  const text = await readFile(path.join(bench.root, BATCH, 'rollouts.jsonl'), 'utf8');
  return JSON.parse(text) as Row;
}

function turnOf({ message_log }: Row) {
  const [prompt, generated] = message_log;
  return {
    prompt_ids: prompt!.token_ids,
    token_ids: generated!.token_ids,
    logprobs: generated!.generation_logprobs!,
  };
}

/** The largest difference between a row's logprobs and torch's at a temperature. */
function furthest(rows: readonly Row[], temperature: number): number {
  const turns = rows.map((row) => ({ ...turnOf(row), temperature }));
  const expected = torchLogprobs(turns);
  const apart = turns.flatMap(({ logprobs }, i) =>
    logprobs.map((got, k) => Math.abs(got - expected[i]![k]!)),
  );
  return apart.reduce((a, b) => Math.max(a, b), 0);
}

/** The probe's result for the model and its adapter. */
const probed = async (service: GenerationService): Promise<unknown[]> => [
  await probeLogprobsMode(service, 'tiny'),
  await probeLogprobsMode(service, 'adapter'),
];

suite('logprobs of a real engine', {
  skip: WITHOUT_ENGINE,
  timeout: 600_000,
  tests: () => {
    let service: GenerationService;
    before(() => (service = openEngine()));
    after(() => service.close());

    test('are in rows those that torch computes of the distribution at the temperature', async (t) => {
      const rows: Row[] = [];
      for (let seed = 0; seed < ROLLOUTS; seed++) rows.push(await rowOf(t, { service, seed }));
      const tokens = rows.reduce((sum, row) => sum + turnOf(row).token_ids.length, 0);
      assert.ok(tokens > 10 * ROLLOUTS, `${tokens} tokens`);
      const worst = furthest(rows, TEMPERATURE);
      t.diagnostic(`${tokens} tokens, at most ${worst} apart`);
      assert.ok(worst <= LOGPROB_TOLERANCE, `a logprob is ${worst} from torch's`);
      // At temperature 1, as a raw engine computes them, logprobs of the same tokens are far off.
      assert.ok(furthest(rows, 1) > 0.1);
    });

    test('show themselves to the probe as processed, those of an adapter, too', async () => {
      assert.deepEqual(await probed(service), ['processed', 'processed']);
    });

    test('of an adapter have the limit of its parent', async () => {
      const { models } = await service.describe(AbortSignal.timeout(10_000));
      const limits = new Map(models.map(({ id, max_model_len }) => [id, max_model_len]));
      assert.equal(limits.get('adapter'), limits.get('tiny'));
      assert.equal(typeof limits.get('adapter'), 'number');
    });
  },
});

suite('logprobs of a real engine in raw mode', {
  skip: WITHOUT_RAW_ENGINE,
  timeout: 600_000,
  tests: () => {
    let service: GenerationService;
    before(() => (service = openEngine(rawBaseUrl())));
    after(() => service.close());

    test('show themselves to the probe as raw, those of an adapter, too', async () => {
      assert.deepEqual(await probed(service), ['raw', 'raw']);
    });

    test('are in rows those of temperature 1', async (t) => {
      const row = await rowOf(t, { service, seed: 1, generation: { logprobs_mode: 'raw' } });
      assert.ok(furthest([row], 1) <= LOGPROB_TOLERANCE);
      assert.ok(furthest([row], TEMPERATURE) > LOGPROB_TOLERANCE);
    });
  },
});
