import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { EnvironmentSettings } from '../../../src/environments/settings.js';
import type { Testbed } from '../../harness/testbed.js';
import { startTestbed } from '../../harness/testbed.js';
import type { WorkerProcess } from '../../harness/worker-process.js';
import type { EnvironmentKind, GoldenCase } from './case.js';
import { environmentKind, readGoldenCase, readGoldenFiles } from './case.js';
import { exceptionOf } from './exceptions.js';
import { checkFailure } from './expected-failure.js';
import { checkRows } from './expected-rows.js';
import { checkTraffic } from './expected-traffic.js';
import { contextLength, play, serviceName } from './play.js';

const AT_ONCE = 4;
const CASE_MS = 90_000;

/**
 * Every recorded case of one of upstream's loops, played as a batch on a real Temporal server with the project's worker,
 * a scripted engine and scripted environments; a worker for each kind of environment.
 */
export function playGoldens(semantics: GoldenCase['semantics']): void {
  const cases = readGoldenFiles()
    .filter((file) => file.kind !== 'function' && file.semantics === semantics)
    .map((file) => ({ golden: readGoldenCase(file.name), exception: exceptionOf(file) }));

  describe(`batches under ${semantics} come out as upstream's loop recorded them`, () => {
    let bed: Testbed | undefined;
    let services: Record<string, string> = {};

    before(async () => {
      bed = await startTestbed(semantics);
      services = await openServices(
        bed,
        cases.map(({ golden }) => golden),
      );
    });
    after(async () => {
      if (bed === undefined) return;
      await bed.end();
      assert.deepEqual([...bed.engine.problems, ...bed.environment.problems], []);
    });

    for (const kind of ['http', 'sliding_puzzle', 'math'] as const) {
      const ofKind = cases.filter(({ golden }) => environmentKind(golden) === kind);
      const task_queue = `goldens-${kind}`;

      describe(`with environments of kind ${kind}`, { concurrency: AT_ONCE }, () => {
        let worker: WorkerProcess | undefined;

        before(async () => {
          const played = ofKind.filter(({ exception }) => exception === null);
          if (played.length === 0) return;
          const tasks = played.flatMap(({ golden }) => golden.script.environment.task_names);
          const { url } = bed!.environment;
          worker = await bed!.startWorker({
            task_queue,
            generation: Object.fromEntries(
              Object.entries(services).map(([name, base_url]) => [
                name,
                { kind: 'vllm', base_urls: [base_url] },
              ]),
            ),
            environments: Object.fromEntries(tasks.map((task) => [task, settingsOf(kind, url)])),
          });
        });
        after(() => worker?.stop());

        for (const { golden, exception } of ofKind) {
          const options = { timeout: CASE_MS, ...(exception !== null && { skip: exception }) };
          test(golden.name, options, async () => {
            const played = await play(golden, { bed: bed!, task_queue });
            if (golden.expected.error !== undefined) {
              checkFailure(golden, played);
            } else {
              checkRows(golden, played);
              checkTraffic(golden, played);
            }
          });
        }
      });
    }
  });
}

/** A replica for each length of context, by the name that the cases ask for. */
async function openServices(
  { engine }: Testbed,
  goldens: readonly GoldenCase[],
): Promise<Record<string, string>> {
  const lengths = new Set(goldens.map(contextLength));
  const opened = [...lengths].map(async (length) => [
    serviceName(length),
    await engine.listen(length),
  ]);
  return Object.fromEntries(await Promise.all(opened)) as Record<string, string>;
}

function settingsOf(kind: EnvironmentKind, url: string): EnvironmentSettings {
  return EnvironmentSettings.parse(kind === 'http' ? { kind, url, timeout: '30s' } : { kind });
}
