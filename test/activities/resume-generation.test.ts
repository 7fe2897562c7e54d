import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Miscount } from '../../src/generation/generation-service.js';
import { Fault } from '../../src/model/faults.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import type { ScriptedReply } from '../fakes/scripted-service.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { CUT, cutAfter, resumed } from '../fakes/resumed-turn.js';
import { REF } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

describe('a generation that was cut', () => {
  test('continues after its last token, with what is left of its room and another seed', async (t) => {
    const { service, open } = await resumed(t, {
      begun: 'to the ',
      then: [says('left')],
      generation: { max_new_tokens: 20, seed: 3 },
    });
    const [first, second] = service.requests;
    assert.deepEqual(second?.prompt_ids, [901, 902, ...idsOf('to the ')]);
    assert.equal(second.max_tokens, 13);
    assert.notEqual(second.seed, first?.seed);
    assert.notEqual(second.request_id, first?.request_id);
    assert.deepEqual(open.token_ids, idsOf('to the left'));
    assert.deepEqual(open.logprobs, deltaOf('to the left').logprobs);
    assert.equal(open.generation?.token_count, 11);
    assert.deepEqual(
      open.segments.map(({ start, end }) => [start, end]),
      [
        [0, 7],
        [7, 11],
      ],
    );
  });

  test('continues as often as it is cut, and wastes nothing', async (t) => {
    const service = scriptedService([cutAfter('a'), cutAfter('b'), cutAfter('c'), says('d')]);
    const bench = await activityBench(t, { service });
    await bench.started();
    for (let i = 0; i < 3; i++) await bench.failure('generateTurn', AT);
    await bench.result('generateTurn', AT);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { inherited_tokens, wasted_tokens } = read;
    assert.deepEqual(open.token_ids, idsOf('abcd'));
    assert.deepEqual([inherited_tokens, wasted_tokens], [3, 0]);
  });

  test('has the text of all its tokens but the end of sequence, without special tokens', async (t) => {
    const { open } = await resumed(t, {
      begun: 'to ',
      then: [says('<s>the left¶')],
      special_tokens: ['<s>'],
    });
    assert.equal(open.generation?.content, 'to the left');
    assert.deepEqual(open.token_ids, idsOf('to <s>the left¶'));
  });

  test('keeps a stop token in its text', async (t) => {
    const { open } = await resumed(t, {
      begun: 'to ',
      then: [says('left.', { stop_reason: 46 })],
    });
    assert.equal(open.generation?.content, 'to left.');
  });

  test('that had filled its room is whole, with finish length', async (t) => {
    const { service, open } = await resumed(t, {
      begun: 'four',
      then: [],
      generation: { max_new_tokens: 4 },
    });
    assert.equal(service.asked.generate, 1);
    assert.deepEqual(
      [open.generation?.finish_reason, open.generation?.content],
      ['length', 'four'],
    );
  });

  test('that had reached its stop token is whole', async (t) => {
    const { service, open } = await resumed(t, {
      begun: 'left.',
      then: [],
      generation: { stop_token_ids: [46] },
    });
    assert.equal(service.asked.generate, 1);
    assert.deepEqual([open.generation?.finish_reason, open.generation?.stop_reason], ['stop', 46]);
  });

  test('that the engine had ended is whole, although its last line is missing', async (t) => {
    const finish = { finish_reason: 'stop', stop_reason: null } as const;
    for (const text of ['left¶', '¶', '']) {
      const deltas = [{ ...deltaOf(text), finish }];
      const service = scriptedService([{ deltas, then: CUT }]);
      const bench = await activityBench(t, { service });
      await bench.started();
      await bench.failure('generateTurn', AT);
      await bench.result('generateTurn', AT);
      const open = openAnswer(await bench.elsewhere().readTrajectory(REF));
      assert.equal(service.asked.generate, 1);
      assert.deepEqual(open.token_ids, idsOf(text));
      assert.deepEqual(
        [open.generation?.finish_reason, open.generation?.content],
        ['stop', text.replace('¶', '')],
      );
    }
  });

  test('by a token that broke the protocol continues after the one before', async (t) => {
    const breach = new Fault({ type: 'ProtocolError', message: 'NaN' });
    const service = scriptedService([{ deltas: [deltaOf('go')], then: breach }, says('od¶')]);
    const bench = await activityBench(t, { service });
    await bench.started();
    await bench.failure('generateTurn', AT);
    await bench.result('generateTurn', AT);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { wasted_tokens } = read;
    assert.deepEqual([open.generation?.content, wasted_tokens], ['good', 0]);
  });

  test('by a count that does not fit does not continue from that reply, but from the one before', async (t) => {
    const miscount = new Miscount({ type: 'ProtocolError', message: 'expected 4, got 3' });
    const bad = { deltas: [deltaOf('bad')], then: miscount };
    const service = scriptedService([cutAfter('go'), bad, says('od¶')]);
    const bench = await activityBench(t, { service });
    await bench.started();
    for (let i = 0; i < 2; i++) await bench.failure('generateTurn', AT);
    await bench.result('generateTurn', AT);
    assert.deepEqual(service.requests[2]?.prompt_ids, [901, 902, ...idsOf('go')]);
    const read = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual([openAnswer(read).generation?.content, read.wasted_tokens], ['good', 3]);
  });

  test('by a reply that broke the protocol at its end does not continue from that reply', async (t) => {
    const breach = new Fault({ type: 'ProtocolError', message: 'wrong usage' });
    const finish = { finish_reason: 'stop', stop_reason: null } as const;
    const bad = { deltas: [{ ...deltaOf('bad'), finish }], then: breach };
    const service = scriptedService([bad, says('good')]);
    const bench = await activityBench(t, { service });
    await bench.started();
    await bench.failure('generateTurn', AT);
    await bench.result('generateTurn', AT);
    assert.deepEqual(service.requests[1]?.prompt_ids, [901, 902]);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { wasted_tokens } = read;
    assert.deepEqual([open.generation?.content, wasted_tokens], ['good', 3]);
  });
});

describe('a decoder that breaks the protocol costs no token', () => {
  const finish = { finish_reason: 'stop', stop_reason: null } as const;
  /** /detokenize answers the nth question of the first attempt with nonsense. */
  const played = async (
    t: TestContext,
    {
      script,
      nonsense_at,
      stop_strings = null,
    }: { script: readonly ScriptedReply[]; nonsense_at: number; stop_strings?: string[] | null },
  ) => {
    const service = scriptedService(script);
    const detokenize = service.detokenize.bind(service);
    let asked = 0;
    service.detokenize = async (...given) => {
      asked += 1;
      if (asked === nonsense_at) throw new Fault({ type: 'ProtocolError', message: 'no prompt' });
      return await detokenize(...given);
    };
    const bench = await activityBench(t, { service });
    await bench.started({ stop_strings });
    await bench.failure('generateTurn', AT);
    assert.equal((await bench.failure('generateTurn', AT)).type, 'ProtocolError');
    await bench.result('generateTurn', AT);
    bench.checkPlayed();
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { wasted_tokens } = read;
    assert.deepEqual([open.generation?.content, wasted_tokens], ['to the left', 0]);
  };

  test('of a generation that was over, which stays over', (t) =>
    played(t, {
      script: [{ deltas: [deltaOf('to the '), { ...deltaOf('left¶'), finish }], then: CUT }],
      nonsense_at: 1,
    }));

  test('of a resumed one that the engine has ended', (t) =>
    played(t, {
      script: [cutAfter('to the '), { deltas: [{ ...deltaOf('left¶'), finish }] }],
      nonsense_at: 2,
    }));

  test('of a resumed one that looks for its stop strings', (t) =>
    played(t, {
      script: [
        cutAfter('to the '),
        { deltas: [deltaOf('le'), { ...deltaOf('ft¶'), finish }], then: 'silence' },
      ],
      nonsense_at: 2,
      stop_strings: ['halt'],
    }));
});

describe('stop strings of a generation that was cut', () => {
  const stop_strings = ['</a>'];

  test('are not sent again', async (t) => {
    const { service } = await resumed(t, { begun: 'x', then: [says('y')], stop_strings });
    assert.deepEqual(
      service.requests.map((request) => request.stop_strings),
      [['</a>'], []],
    );
  });

  test('that had been completed end it there, and what had come behind does not count', async (t) => {
    const { service, open } = await resumed(t, {
      begun: '<a>up</a> and',
      then: [],
      stop_strings,
    });
    assert.equal(service.asked.generate, 1);
    assert.deepEqual(open.token_ids, idsOf('<a>up</a>'));
    const { finish_reason, stop_reason, content, token_count } = open.generation ?? assert.fail();
    assert.deepEqual(
      [finish_reason, stop_reason, content, token_count],
      ['stop', '</a>', '<a>up</a>', 9],
    );
  });

  test('that span the seam end it at the token that completes them', async (t) => {
    const silence: ScriptedReply = { deltas: [deltaOf('/a> and so on')], then: 'silence' };
    const { open } = await resumed(t, { begun: '<a>up<', then: [silence], stop_strings });
    assert.deepEqual(open.token_ids, idsOf('<a>up</a>'));
    assert.equal(open.generation?.content, '<a>up</a>');
    assert.equal(open.generation.stop_reason, '</a>');
  });

  test('are looked for in what comes, whichever way it is cut into deltas', async (t) => {
    const text = 'p</a';
    for (let at = 1; at < text.length; at++) {
      const deltas = [
        deltaOf(text.slice(0, at)),
        deltaOf(text.slice(at)),
        deltaOf('> '),
        deltaOf('more'),
      ];
      const { open } = await resumed(t, {
        begun: '<a>u',
        then: [{ deltas, then: 'silence' }],
        stop_strings,
      });
      assert.equal(open.generation?.content, '<a>up</a>');
      assert.equal(open.generation.token_count, 9);
    }
  });

  test('that the engine did not apply end it even if the engine ended it later', async (t) => {
    const { open } = await resumed(t, { begun: 'x', then: [says('</a> y')], stop_strings });
    assert.deepEqual([open.generation?.content, open.generation?.stop_reason], ['x</a>', '</a>']);
  });
});
