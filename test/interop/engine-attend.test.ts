import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { stackEnvironment } from '../../dev/stack-environment.js';
import type { ReplicaEntry } from '../../src/model/policy/record.js';
import type { Child } from '../../dev/child.js';
import { startChild } from '../../dev/child.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import { publish } from '../../lab/bed/policy-bed.js';
import { lastRecord } from '../../lab/bed/policy-store.js';
import { eventually, within } from '../../lab/bed/waiting.js';
import type { InteropBed } from './batch-bed.js';
import { lastKinds, midGeneration, REQUEST, startInteropBed } from './batch-bed.js';
import { freePort, paceIn } from './engine-process.js';
import { startCommand, suite, WITHOUT_START } from './engine.js';
import { compareWithTorch } from './labelled-turns.js';
import { makeCheckpoint } from './torch-logprobs.js';

const STORE = 'attended';
const STREAMS = 8;
const LONG = 440;
/** Seconds a token, so that streams outlast what happens to their engine. */
const SLOW = 0.1;
const SEED = 31;
const TOLERANCE = 1e-3;
const STARTED_MS = 600_000;
const OUTCOME_MS = 300_000;
const MAIN = path.join(PROJECT_ROOT, 'dist', 'src', 'cli', 'main.js');

suite('engine attend in front of a real engine', {
  skip: WITHOUT_START,
  timeout: 3_600_000,
  tests: () => {
    let interop: InteropBed;
    let url: string;
    let port: number;
    let attended: Child;
    const left: Child[] = [];

    const file = (name: string): string => path.join(interop.bed.directory, name);
    const entry = async (): Promise<ReplicaEntry | undefined> =>
      (await lastRecord(path.join(interop.bed.storeRoot(STORE), '_policy', 'default')))?.replicas[
        url
      ];
    const serves = (): Promise<ReplicaEntry> =>
      eventually({ what: 'an engine that serves', timeout_ms: STARTED_MS }, async () => {
        const now = await entry();
        return now?.state === 'current' && now;
      });

    /** As a supervisor starts it; resolves at once. */
    async function attend(command: string): Promise<Child> {
      const child = await startChild({
        command: process.execPath,
        args: [
          MAIN,
          'engine',
          'attend',
          '--config',
          file(`worker-${STORE}-1.yaml`),
          '--url',
          url,
          '--drain-limit',
          '3s',
          '--',
          'bash',
          '-c',
          command,
        ],
        cwd: interop.bed.directory,
        env: {
          ...stackEnvironment(process.env),
          ...paceIn(interop.bed.directory).variables,
          PORT: String(port),
          TINY_VLLM_NO_ADAPTER: '1',
          TINY_VLLM_TRANSFER: '1',
        },
        logFile: file('attend.log'),
        ends: 'kernel',
      });
      left.push(child);
      return child;
    }
    const attendEngine = async (): Promise<void> => {
      attended = await attend(`exec ${startCommand()}`);
    };
    const exit = async ({ exited }: Child): Promise<number | null> =>
      (await within('the end of attend', exited)).code;
    /** What attend has started. */
    async function enginePid(): Promise<number> {
      const { pid } = attended;
      const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
      return Number(children.trim().split(' ')[0]);
    }
    const midstream = (): Promise<void> =>
      midGeneration(interop, { store: STORE, batch: STORE, least: STREAMS });
    async function noneHasEnded(): Promise<void> {
      const last = await lastKinds(interop.bed, { store: STORE, batch: STORE });
      assert.equal(last.length, STREAMS);
      assert.ok(!last.includes('end'), last.join());
    }

    before(async () => {
      port = await freePort();
      url = `http://127.0.0.1:${port}/v1`;
      interop = await startInteropBed({ name: 'engine-attend', base_url: url });
      await interop.bed.startWorker(STORE);
      makeCheckpoint(file('checkpoint'), SEED);
    });
    after(async () => {
      for (const child of left) await child.stop();
      await interop.end();
    });

    const instances = new Set<string | null>();

    test('it joins when it is healthy, and serves what is published', async () => {
      await interop.bed.observed(async () => {
        await attendEngine();
        await serves();
        await publish(interop.bed.server(), {
          version: 1,
          weights: { kind: 'checkpoint', path: file('checkpoint') },
          task_queue: STORE,
        });
        instances.add((await serves()).instance);
        await paceIn(interop.bed.directory).pace(SLOW);
        const samples = REQUEST.samples
          .slice(0, STREAMS)
          .map((one) => ({ ...one, extra_env_info: { left: 1 } }));
        const generation = { temperature: 1, max_new_tokens: LONG, ignore_eos: true };
        await interop.bed.batch(STORE, STORE).start({ ...REQUEST, samples, generation });
        await midstream();
      });
    });

    test('at SIGTERM it drains, ends its engine, and leaves; streams wait for another', async () => {
      await interop.bed.observed(async () => {
        process.kill(attended.pid, 'SIGTERM');
        const code = await exit(attended);
        const now = await entry();
        console.log('SIGTERM', { code, state: now?.state, fault: now?.fault });
        assert.notEqual(now?.state, 'current');
        await noneHasEnded();
      });
    });

    test('a command that crashes at its start never serves, however often it is started', async () => {
      await interop.bed.observed(async () => {
        for (let crash = 0; crash < 3; crash++) {
          assert.equal(await exit(await attend('exit 3')), 3);
          assert.notEqual((await entry())?.state, 'current');
        }
        await noneHasEnded();
      });
    });

    test('started again, it serves as another process, once it has the published weights', async () => {
      await interop.bed.observed(async () => {
        await attendEngine();
        const { version, instance } = await serves();
        assert.equal(version, 1);
        instances.add(instance);
        assert.equal(instances.size, 2);
        await midstream();
      });
    });

    test('after kill -9 of its engine it leaves, and says so as shells do; nothing is lost', async () => {
      await interop.bed.observed(async () => {
        process.kill(await enginePid(), 'SIGKILL');
        assert.equal(await exit(attended), 137);
        assert.notEqual((await entry())?.state, 'current');
        await noneHasEnded();
        await attendEngine();
        instances.add((await serves()).instance);
        assert.equal(instances.size, 3);
        await paceIn(interop.bed.directory).pace(0);
        const { rollouts, failures } = await interop.bed.batch(STORE, STORE).outcome(OUTCOME_MS);
        assert.deepEqual(failures, []);
        assert.equal(rollouts.length, STREAMS);
        const { checked, furthest, versions } = compareWithTorch(rollouts, () =>
          file('checkpoint'),
        );
        console.log({ tokens: checked, furthest, versions: [...versions] });
        assert.deepEqual([...versions], ['1']);
        assert.ok(furthest < TOLERANCE, `a logprob differs by ${furthest}`);
      });
    });
  },
});
