/** A real `GRPOTrainer` on two ranks that hold its model in parts, by `accelerate launch` on CPUs. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { takePort } from '../../dev/free-port.js';
import { eventually } from '../../lab/bed/waiting.js';
import { suite } from './engine.js';
import type { Program, TrlBed } from './trl-bed.js';
import { startTrlBed, WITHOUT_TRL } from './trl-bed.js';

const STEPS = 3;
const ROWS_OF_STEP = 8;
const RANKS = 2;

/** Of `accelerate launch`. */
const WAYS: Record<string, { flags: string; env: Record<string, string> }> = {
  fsdp2: {
    flags:
      '--use_fsdp --fsdp_version 2 --fsdp_state_dict_type SHARDED_STATE_DICT --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP --fsdp_transformer_layer_cls_to_wrap Qwen2DecoderLayer',
    env: { ACCELERATE_USE_CPU: 'true' },
  },
  zero2: {
    flags: '--use_deepspeed --zero_stage 2 --gradient_accumulation_steps 1',
    env: { DS_ACCELERATOR: 'cpu' },
  },
  zero3: {
    flags: '--use_deepspeed --zero_stage 3 --gradient_accumulation_steps 1',
    env: { DS_ACCELERATOR: 'cpu' },
  },
};

interface Line {
  step?: number;
  furthest?: number;
  pid?: number;
  columns?: { rollout_id: string[]; completion_ids: number[][]; env_mask: number[][] };
}

for (const [way, { flags, env }] of Object.entries(WAYS))
  suite(`a real TRL in shards of ${way}`, {
    skip: WITHOUT_TRL,
    timeout: 1_800_000,
    tests: () => {
      let bed: TrlBed;
      before(async () => {
        bed = await startTrlBed(`interop-trl-${way}`, { tick_s: 0.02, env });
      });
      after(() => bed.end());

      const folderOf = (name: string): string => path.join(bed.bed.directory, name);
      const train = async (name: string, ...more: string[]): Promise<Program> => {
        const port = await takePort(29_600);
        const launch = `-m accelerate.commands.launch --num_processes ${RANKS} --num_machines 1 --mixed_precision no --dynamo_backend no --main_process_port ${port} ${flags}`;
        const place = ['--folder', folderOf(name), '--store', bed.bed.store_root];
        const script = [bed.script('train.py'), ...place, '--model', bed.model, '--run', name];
        return bed.python([...launch.split(' '), ...script, ...more]);
      };
      const linesOf = (name: string, rank: number): Line[] => {
        const file = path.join(folderOf(name), rank === 0 ? 'steps.jsonl' : `steps-${rank}.jsonl`);
        const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
        return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Line);
      };
      const stepsOf = (name: string, rank: number): Line[] =>
        linesOf(name, rank).filter(({ step }) => step !== undefined);
      const sampledIn = (of: string): { id: number }[] =>
        bed.sampled().filter(({ request }) => request.startsWith(of));

      test('publishes the files of the whole model, byte for byte', async () => {
        const { said, ended } = await train('whole', '--steps', '1', '--save', '100');
        assert.equal(await ended, 0, said.join('\n'));
        const weights = path.join(folderOf('whole'), 'weights');
        const [first] = readdirSync(weights).sort((a, b) => Number(a) - Number(b));
        const same = bed.run('same.py', [path.join(weights, first!), bed.model]);
        assert.equal(await same.ended, 0, same.said.join('\n'));
        assert.equal(bed.loads().length, 2);
      });

      test('whose rank 1 is killed ends and says so, and goes on where it was', async () => {
        const first = await train('killed');
        await eventually({ what: 'the second step', timeout_ms: 600_000 }, () => {
          assert.equal(first.child.exitCode, null, first.said.join('\n'));
          return sampledIn('killed:1.').length > ROWS_OF_STEP;
        });
        const victim = linesOf('killed', 1).findLast(({ pid }) => pid !== undefined)?.pid;
        process.kill(victim!, 'SIGKILL');
        assert.notEqual(await first.ended, 0);
        assert.match(first.said.join('\n'), /Signal 9 \(SIGKILL\) received by PID/);

        const { said, ended } = await train('killed');
        assert.equal(await ended, 0, said.join('\n'));
        const expected = Array.from({ length: STEPS }, (_, step) => step);
        for (let rank = 0; rank < RANKS; rank++) {
          const steps = stepsOf('killed', rank);
          console.log({ way, rank, ratios: steps.map(({ furthest }) => furthest) });
          assert.deepEqual([...new Set(steps.map(({ step }) => step))], expected);
          for (const { step, furthest, columns } of steps) {
            assert.ok(furthest! < 1e-4, `step ${step}: a ratio is ${furthest} away from 1`);
            assert.equal(columns!.rollout_id.length, ROWS_OF_STEP / RANKS);
            for (const [at, id] of columns!.rollout_id.entries()) {
              const mask = columns!.env_mask[at]!;
              const trainedOn = columns!.completion_ids[at]!.filter((_, k) => mask[k] === 1);
              const sampled = sampledIn(`${id}.`).map((one) => one.id);
              assert.deepEqual(trainedOn, sampled, id);
            }
          }
        }
      });
    },
  });
