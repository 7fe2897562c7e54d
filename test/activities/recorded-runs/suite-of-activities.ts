import assert from 'node:assert/strict';
import { mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Row } from '../../../src/model/results/row.js';
import { textsOf } from '../../../src/platform/lines.js';
import { temporaryFolder } from '../../fakes/temporary-store.js';
import type { Player } from '../../harness/played-batch.js';
import { createPlayer } from '../../harness/played-batch.js';
import { skip } from '../../harness/python-package.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import type { ScriptedEngine } from '../../servers/scripted-engine.js';
import { createScriptedEngine } from '../../servers/scripted-engine.js';
import type { ScriptedEnvironment } from '../../servers/scripted-environment.js';
import { startScriptedEnvironment } from '../../servers/scripted-environment.js';
import { startAsked } from '../../harness/python-asked.js';
import { writeBoth } from '../../python/arrow-files.js';
import type { GoldenCase } from './case.js';
import { checkRun, recordedRuns, settingsOf } from './suite.js';

const AT_ONCE = 4;
const KINDS = ['http', 'sliding_puzzle', 'math'] as const;

/**
 * Every recorded case of one of upstream's loops, played through a worker's activities over a real store, a scripted
 * engine and scripted environments.
 */
export function playRecordedRuns(semantics: GoldenCase['semantics']): void {
  const runs = recordedRuns(semantics);

  describe(`batches under ${semantics} come out as upstream's loop recorded them`, () => {
    let engine: ScriptedEngine;
    let environment: ScriptedEnvironment;
    const rows: Row[] = [];
    before(async () => {
      engine = createScriptedEngine();
      environment = await startScriptedEnvironment();
    });
    after(async () => {
      await Promise.all([engine.close(), environment.close()]);
      assert.deepEqual([...engine.problems, ...environment.problems], []);
    });

    for (const kind of KINDS) {
      const ofKind = runs.filter((run) => run.kind === kind);
      const played = ofKind.filter(({ exception }) => exception === null);

      describe(`with environments of kind ${kind}`, { concurrency: AT_ONCE }, () => {
        let player: Player;
        let remove: () => Promise<void>;
        let root: string;
        before(async () => {
          const directory = await makeTemporaryDirectory(`${semantics}-${kind}`);
          ({ remove } = directory);
          root = path.join(directory.path, 'store');
          // Also where a pattern of names plays none of them.
          await mkdir(root);
          player = await createPlayer({
            store: { kind: 'file', root },
            inputs_dir: directory.path,
            ...(await settingsOf(played, { engine, url: environment.url })),
          });
        });
        after(async () => {
          await player.close();
          for (const file of await readdir(root, { recursive: true }))
            if (path.basename(file) === 'rollouts.jsonl')
              for await (const line of textsOf(path.join(root, file)))
                rows.push(JSON.parse(line) as Row);
          await remove();
        });

        for (const { golden, exception } of ofKind) {
          test(golden.name, { skip: exception ?? false }, () =>
            checkRun(golden, { engine, environment, playBatch: player.playBatch }),
          );
        }
      });
    }

    test('their rows have equal arrays as lines and as Arrow', { skip }, async (t) => {
      const folder = await temporaryFolder(t);
      await writeBoth(folder, rows);
      const python = startAsked('arrow_forms.py');
      t.after(python.end);
      const seen = (await python.ask('equal', folder)) as Record<string, number>;
      assert.equal(seen['rows'], rows.length);
      assert.ok((seen['arrays'] ?? 0) > runs.length, JSON.stringify(seen));
    });
  });
}
