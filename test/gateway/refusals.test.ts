/** What agents are told instead of an answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contextFull, limitReached, openaiError } from '../../src/gateway/refusals.js';

test('a full context has the words for which agents look', () => {
  const { error } = openaiError(contextFull({ tokens: 5000, most: 4096 }));
  assert.equal(error.code, 'context_length_exceeded');
  assert.equal(error.param, 'messages');
  assert.match(error.message, /^This model's maximum context length is 4096 tokens\./);
});

test('a limit is nothing to try again', () => {
  const refusal = limitReached('calls', 100);
  assert.equal(refusal.status, 400);
  const { error } = openaiError(refusal);
  assert.deepEqual([error.code, error.type], ['rollout_limit', 'invalid_request_error']);
  assert.match(error.message, /limit of 100 calls/);
});

test('other statuses have types of their own', () => {
  const { error } = openaiError({ status: 404, code: 'not_found', message: 'no such path' });
  assert.deepEqual([error.type, error.param], ['not_found_error', null]);
});
