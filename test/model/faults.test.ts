import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FaultType } from '../../src/model/faults.js';
import { Fault, judged } from '../../src/model/faults.js';
import { describeError } from '../../src/platform/errors.js';

describe('Fault', () => {
  const retried: Record<FaultType, boolean> = {
    GenerationUnavailable: true,
    GenerationRejected: false,
    ProtocolError: true,
    EnvironmentUnavailable: true,
    EnvironmentRejected: false,
    EnvironmentFailed: true,
    AgentFailed: false,
    StateLost: false,
    ReplayDiffers: false,
    EnvironmentStateLost: false,
    JournalLost: false,
    StoreFault: true,
    PolicyVersionMismatch: true,
    PolicyUpdateFailed: false,
    StepOutOfOrder: false,
    StreamEnded: false,
    StreamStarved: false,
    PromptTooLong: false,
    InvalidBatchRequest: false,
    TimedOut: false,
  };
  for (const [type, retryable] of Object.entries(retried)) {
    test(`${type} is ${retryable ? '' : 'not '}retried`, () => {
      const fault = new Fault({ type: type as FaultType, message: 'm' });
      assert.equal(fault.retryable, retryable);
      assert.equal(fault.name, type);
    });
  }

  test('quotes what came as plain text: in journals, failures and logs nothing acts', () => {
    const message = 'engine said: \u001b[31mred\u001b]0;owned\u0007 \u202egnp.exe\nnext line';
    const fault = new Fault({ type: 'GenerationRejected', message });
    assert.equal(fault.message, 'engine said: red �gnp.exe\nnext line');
  });

  test('is cut between characters: half of one has no UTF-8', () => {
    for (const before of ['', 'x']) {
      const fault = new Fault({
        type: 'EnvironmentRejected',
        message: before + '😀'.repeat(5000),
        trace: before + '😀'.repeat(5000),
      });
      assert.ok(fault.message.length <= 4001, `${fault.message.length}`);
      assert.ok(fault.message.isWellFormed() && fault.trace?.isWellFormed());
    }
  });

  test('one that is otherwise retried can be final', () => {
    const fault = new Fault({ type: 'ProtocolError', message: 'm', retryable: false });
    assert.equal(fault.retryable, false);
  });

  const finality = (type: FaultType, failed: number) =>
    !judged(new Fault({ type, message: 'm' }), {
      of_turn: { [type]: failed },
      attempts: { environment: 3 },
    }).retryable;

  test('an environment that failed is final at the number of its attempts, an absent one never', () => {
    assert.deepEqual(
      [1, 2, 3, 4].map((failed) => finality('EnvironmentFailed', failed)),
      [false, false, true, true],
    );
    assert.equal(finality('EnvironmentUnavailable', 1000), false);
  });

  test('the second reply to one turn that breaks the protocol is final', () => {
    assert.deepEqual([finality('ProtocolError', 1), finality('ProtocolError', 2)], [false, true]);
  });

  test('a reply that breaks the protocol is final where no journal counts', () => {
    const fault = new Fault({ type: 'ProtocolError', message: 'm' });
    assert.equal(judged(fault, { is_planned: false }).retryable, false);
  });

  test('what is not given is null', () => {
    const { at, retryAfterMs, cause } = new Fault({ type: 'StoreFault', message: 'm' });
    assert.deepEqual([at, retryAfterMs, cause], [null, null, undefined]);
  });
});

describe('describeError', () => {
  test('it tells the causes, each text once', () => {
    const refused = new Error('ECONNREFUSED 127.0.0.1:1');
    const again = new Error('fetch failed', { cause: refused });
    assert.equal(
      describeError(new Error('fetch failed', { cause: again })),
      'fetch failed: ECONNREFUSED 127.0.0.1:1',
    );
  });

  test('a cause that the text contains already is not repeated, and a sentence keeps its end', () => {
    const cause = new Error('connect ECONNREFUSED 127.0.0.1:1');
    const failed = new Error(`GET / failed: ${cause.message}`, { cause });
    assert.equal(describeError(failed), 'GET / failed: connect ECONNREFUSED 127.0.0.1:1');
    assert.equal(
      describeError(new Error('Is it up?', { cause })),
      'Is it up? connect ECONNREFUSED 127.0.0.1:1',
    );
  });

  test('it ends on causes that go round', () => {
    const error = new Error('round');
    error.cause = error;
    assert.equal(describeError(error), 'round');
  });

  test('anything thrown has a text', () => {
    assert.equal(describeError('text'), 'text');
    assert.equal(describeError(undefined), 'undefined');
    assert.equal(describeError(new Error('')), 'Error');
  });
});
