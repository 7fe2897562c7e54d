/** A real `GRPOTrainer` with PEFT beside a real vLLM. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from '../../lab/bed/waiting.js';
import type { KeptEngine } from './engine-process.js';
import { keepEngine } from './engine-process.js';
import { suite, WITHOUT_START } from './engine.js';
import type { TrlBed } from './trl-bed.js';
import { startTrlBed, WITHOUT_TRL } from './trl-bed.js';
import { onBed, STEPS } from './trl-training.js';

const MOST_RANK = 8;

suite('a real TRL with PEFT beside a real vLLM', {
  skip: WITHOUT_TRL !== false ? WITHOUT_TRL : WITHOUT_START,
  timeout: 1_800_000,
  tests: () => {
    let engine: KeptEngine | undefined;
    let bed: TrlBed;
    before(async () => {
      const serve = async (model: string): Promise<string> => {
        engine = await keepEngine('interop-trl-vllm', {
          env: { MODEL: model, VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' },
          flags: [
            '--max-num-seqs 16 --enable-lora --max-loras 3 --max-lora-rank',
            String(MOST_RANK),
          ],
        });
        return engine.base_url;
      };
      bed = await startTrlBed('interop-trl-vllm', { tick_s: 0, serve });
    });
    after(async () => {
      await bed.end();
      await engine?.end();
    });
    const on = onBed(() => bed);

    test('killed in its second step it goes on, ratios are 1, and no stream is paused', async () => {
      const first = on.train('vllm', '--rank', '4');
      await eventually({ what: 'the second step', timeout_ms: 600_000 }, () => {
        assert.equal(first.child.exitCode, null, first.said.join('\n'));
        return on.linesOf('vllm').some(({ asked }) => asked === 1);
      });
      first.child.kill('SIGKILL');
      await first.ended;
      await on.trained('vllm', '--rank', '4');
      on.assertTrained('vllm');
      const log = readFileSync(path.join(engine!.directory, 'engine.log'), 'utf8');
      assert.doesNotMatch(log, /"POST \/pause/);
      assert.equal(log.match(/"POST \/v1\/load_lora_adapter[^"]*" 200/g)?.length, STEPS + 1);
    });

    test('an adapter of a higher rank than it takes is refused before a token is sampled', async () => {
      const { said, ended } = on.train('high', '--rank', String(2 * MOST_RANK));
      assert.notEqual(await ended, 0);
      assert.match(
        said.join('\n'),
        /PolicyUpdateFailed.*LoRA rank 16 is greater than max_lora_rank 8/,
      );
      assert.deepEqual(on.stepsOf('high'), []);
    });
  },
});
