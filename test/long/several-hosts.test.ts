/** Workers of several hosts: with different stores, and with clocks that disagree. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { startCommand } from '../../lab/bed/command.js';
import { workerBed } from '../harness/worker-bed.js';
import { startWorkerProcess } from '../../lab/bed/worker.js';

describe('a worker', () => {
  const { directory, server, config, refusal } = workerBed('several-hosts', 'clocks');

  test('with another store than a worker of its task queue ends, and check names that worker', async () => {
    const task_queue = 'two-stores';
    const temporal = { address: server().address, namespace: server().namespace, task_queue };
    const first = await startWorkerProcess({
      directory: directory(),
      config: config({ temporal }),
      name: 'first-store',
    });
    try {
      const store = { kind: 'file', root: path.join(directory(), 'other') };
      const other = {
        directory: directory(),
        name: 'other-store',
        config: config({ temporal, store }),
      };
      const said = new RegExp(
        `worker ${first.pid}@\\S+ of task queue ${task_queue}\\S* has another store \\(id \\w+\\) than ${store.root} `,
      );
      assert.match(await refusal(other.name, other), said);
      const check = startCommand([
        'check',
        '--config',
        path.join(directory(), `${other.name}.yaml`),
      ]);
      assert.equal(await check.exited, 1);
      assert.match(check.output().replaceAll(/\s+/g, ' '), said);
      const same = await startWorkerProcess({
        ...other,
        name: 'same-store',
        config: config({ temporal }),
      });
      await same.stop();
    } finally {
      await first.stop();
    }
    // One that has stopped is in nobody's way.
    const store = { kind: 'file', root: path.join(directory(), 'other') };
    const next = await startWorkerProcess({
      directory: directory(),
      name: 'next-store',
      config: config({ temporal, store }),
    });
    await next.stop();
  });

  for (const hours of [1, -1])
    test(`on a host whose clock is ${hours} h ahead says so, as check does`, async () => {
      const clock = path.join(directory(), `clock-${hours}.mjs`);
      await writeFile(clock, clockAheadBy(hours));
      const name = `clock-${hours}`;
      const env = { NODE_OPTIONS: `--import ${clock}` };
      const worker = await startWorkerProcess({
        directory: directory(),
        config: config(),
        name,
        env,
      });
      await worker.stop();
      const said = new RegExp(
        `this host's clock is 3(600|599|601) s ${hours > 0 ? 'ahead of' : 'behind'} the`,
      );
      assert.match(await worker.log(), said);
      const check = startCommand(
        ['check', '--config', path.join(directory(), `${name}.yaml`)],
        ['--import', clock],
      );
      await check.exited;
      assert.match(check.output().replaceAll(/\s+/g, ' '), said);
    });
});

/** A module that makes a process one of such a host. */
const clockAheadBy = (hours: number): string => `
  const ahead = ${hours} * 3_600_000;
  const Own = Date;
  globalThis.Date = class extends Own {
    constructor(...given) {
      super(...(given.length === 0 ? [Own.now() + ahead] : given));
    }
    static now() {
      return Own.now() + ahead;
    }
  };
  Object.defineProperty(performance, 'timeOrigin', { value: performance.timeOrigin + ahead });
`;
