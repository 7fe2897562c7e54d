import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { EnvironmentSettings } from '../../src/environments/registry.js';
import { checkEnvironments, loadModules } from '../../src/workers/check/check-environments.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

describe('modules of a deployment', () => {
  test('are loaded before a stack starts: the first that cannot be is an error with its line', async (t) => {
    const folder = await temporaryFolder(t);
    const [good, bad] = ['good.mjs', 'bad.mjs'].map((name) => path.join(folder, name));
    assert.ok(good !== undefined && bad !== undefined);
    await writeFile(good, 'export default { stepOne() {} };');
    await writeFile(bad, 'export default {\n  stepOne( {\n');
    const module = (file: string) => EnvironmentSettings.parse({ kind: 'module', path: file });
    await loadModules({ environments: { good: module(good) } }, {});
    const environments = { good: module(good), bad: module(bad) };
    await assert.rejects(loadModules({ environments }, {}), (error: Error) => {
      assert.equal(
        error.message,
        `environment bad: cannot load ${bad}: SyntaxError: Unexpected end of input (at ${bad}:3)`,
      );
      return true;
    });
    const [, broken] = await checkEnvironments({ environments }, {});
    assert.equal(broken?.state, 'broken');
    assert.match(broken.remedy ?? '', /^mend it, or take it out of environments/);
  });
});
