import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowsSha256 } from '../resume/rows-sha256.js';
import { gymRow } from './rows.js';

const sha = (...fields: string[]): string =>
  rowsSha256(fields.map((text, task) => gymRow({ task, rollout: 0 }, { fields: text })));

test('rows are the same however they are written, and others are not', () => {
  const first = sha('{"a":1e-7,"b":{"x":1,"y":[true,null]}}');
  assert.equal(first, sha('{"b":{"y":[true,null],"x":1.0},"a":0.0000001,"_ng_attempt_index":2}'));
  assert.notEqual(first, sha('{"a":1e-7,"b":{"x":1,"y":[true,"null"]}}'));
  assert.notEqual(sha('{"n":9007199254740993}'), sha('{"n":9007199254740992}'));
  assert.notEqual(sha('{}'), sha('{}', '{}'));
});
