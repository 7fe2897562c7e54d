import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { routeAnswer, routeFailure, routedLine } from '../../collection/follow/routing.js';
import { gymRow } from '../rows.js';

const row = gymRow({ task: 3, rollout: 1 });
const routed = (text: string, attempt = 0) => routeAnswer({ row, attempt, text });

describe('an answer of an agent', () => {
  test('is stamped at its end with the keys of its row, in upstream’s order', () => {
    const full = gymRow(
      { task: 3, rollout: 1 },
      { fields: '{"skills_ref":{"hash":"abc"},"_ng_rollout_id":"mine"}' },
    );
    const { to, result } = routeAnswer({
      row: full,
      attempt: 2,
      text: '{"reward":1,"response":{}}',
    });
    assert.equal(to, 'main');
    assert.deepEqual(
      [...result.keys()],
      [
        'reward',
        'response',
        '_ng_task_index',
        '_ng_rollout_index',
        'agent_ref',
        'skills_ref',
        '_ng_attempt_index',
        '_ng_rollout_id',
      ],
    );
  });

  test('keeps the digits of its numbers', () => {
    const line = routedLine(routed('{"reward": 1.0, "seed": 9007199254740993, "p": 1e-7}'));
    assert.equal(
      line,
      '{"reward":1.0,"seed":9007199254740993,"p":1e-7,"_ng_task_index":3,"_ng_rollout_index":1,"agent_ref":{"name":"simple_agent"}}',
    );
  });

  test('is one line where the agent broke it into several', () => {
    const line = routedLine(routed('{\n  "reward": 1,\r\n  "a": [\n1,\n 2]\n}'));
    assert.ok(!/[\r\n]/.test(line));
    assert.deepEqual((JSON.parse(line) as { a: unknown }).a, [1, 2]);
  });

  test('is one line whatever it says', () => {
    fc.assert(
      fc.property(fc.json(), (json) => {
        const line = routedLine(routed(`{"answer":${json},"reward":0}`));
        assert.ok(!line.includes('\n'));
        assert.deepEqual(
          (JSON.parse(line) as { answer: unknown }).answer,
          JSON.parse(json) as unknown,
        );
      }),
    );
  });

  test('that has the keys already gets those of its row, where it has them', () => {
    const { result } = routed('{"_ng_task_index":99,"reward":0}');
    assert.deepEqual([...result.keys()].slice(0, 2), ['_ng_task_index', 'reward']);
    assert.equal(result.get('_ng_task_index'), '3');
  });

  test('has no attempt where its row never failed', () => {
    assert.ok(!routed('{"reward":0}').result.has('_ng_attempt_index'));
    assert.ok(routed('{"reward":0}', 1).result.has('_ng_attempt_index'));
  });

  test('goes to the failures where it names a class, even an empty one, and nowhere where it asks for that', () => {
    assert.equal(routed('{"_ng_failure_class":"timeout","reward":0}').to, 'failures');
    assert.equal(routed('{"_ng_failure_class":"","reward":0}').to, 'failures');
    assert.equal(routed('{"_ng_failure_class":null,"reward":0}').to, 'main');
    assert.equal(routed('{"_ng_no_persist":true,"_ng_failure_class":"kill"}').to, 'nowhere');
  });

  test('asks to be written nowhere as Python reads truth', () => {
    for (const truthy of ['1', '"no"', '[0]', '{"a":0}', '0.5']) {
      assert.equal(routed(`{"_ng_no_persist":${truthy}}`).to, 'nowhere', truthy);
    }
    for (const falsy of ['0', '0.0', '""', '[]', '{}', 'null', 'false']) {
      assert.equal(routed(`{"_ng_no_persist":${falsy}}`).to, 'main', falsy);
    }
  });
});

describe('a failed run', () => {
  const failure = {
    failure_class: 'agent_run_error',
    terminal: false,
    type: 'EnvironmentUnavailable',
    message: 'POST /run answered 500',
    status: 500,
  };

  test('has its class, its attempt and what happened, and neither reward nor response', () => {
    const line = routedLine(routeFailure({ row, attempt: 1, failure }));
    assert.deepEqual(JSON.parse(line), {
      _ng_failure_class: 'agent_run_error',
      error: { type: 'EnvironmentUnavailable', message: 'POST /run answered 500', status: 500 },
      _ng_task_index: 3,
      _ng_rollout_index: 1,
      agent_ref: { name: 'simple_agent' },
      _ng_attempt_index: 1,
    });
  });

  test('says that it is final only where it is', () => {
    const final = routeFailure({ row, attempt: 0, failure: { ...failure, terminal: true } });
    assert.equal(final.result.get('_ng_failure_terminal'), 'true');
    assert.ok(!routeFailure({ row, attempt: 0, failure }).result.has('_ng_failure_terminal'));
  });
});
