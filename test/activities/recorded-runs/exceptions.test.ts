import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readGoldenFiles } from './case.js';
import { EXCEPTIONS, exceptionOf } from './exceptions.js';

describe('recorded cases that are not played', () => {
  const files = readGoldenFiles();

  test('there are 400 recorded cases', () => {
    assert.equal(files.length, 400);
  });

  for (const { reason, applies, count } of EXCEPTIONS) {
    test(`${count} cases are an exception, because ${reason}`, () => {
      const names = files.filter(applies).map(({ name }) => name);
      assert.equal(names.length, count, names.join(', '));
    });
  }

  // Those of whole runs are listed where the others are played.
  for (const file of files.filter(({ kind }) => kind === 'function')) {
    test(file.name, { skip: exceptionOf(file) ?? false }, () => {
      assert.fail('nothing plays this case');
    });
  }
});
