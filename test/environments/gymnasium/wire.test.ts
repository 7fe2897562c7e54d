import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  cookieHeader,
  isOtherSession,
  mergeCookies,
  sessionIdIn,
} from '../../../src/environments/gymnasium/cookies.js';
import { saysLost, stepFault } from '../../../src/environments/gymnasium/lost-session.js';
import {
  observationText,
  requestIdOf,
  responseOf,
  rowOf,
  StepAnswer,
} from '../../../src/environments/gymnasium/wire.js';
import { Fault } from '../../../src/model/faults.js';
import { problemsOf } from '../../../src/model/problems.js';
import { SESSION_KEY } from '../../../src/model/journal/session.js';
import { plainOf } from '../../../src/platform/json/kept.js';

const session = {
  id: 'b/0-0/begin-0',
  cookies: {},
  prompt_messages: 1,
  steps: 0,
  step_idempotency: true,
  explicit_close: true,
};
const cookieOf = (value: unknown, rest: string): string =>
  `${Buffer.from(JSON.stringify(value)).toString('base64')}.${rest}`;

describe('the cookies of a session', () => {
  test('are merged by name, without their attributes', () => {
    const first = mergeCookies({}, ['a=1; Path=/; HttpOnly', 'b=x=y==; SameSite=lax']);
    assert.deepEqual(first, { a: '1', b: 'x=y==' });
    assert.deepEqual(mergeCookies(first, ['a=2', 'nonsense', '=3']), { a: '2', b: 'x=y==' });
    assert.deepEqual(cookieHeader({ a: '2', b: 'x=y==' }), { cookie: 'a=2; b=x=y==' });
    assert.deepEqual(cookieHeader({}), {});
  });

  test('go when they expire', () => {
    const both = { a: '1', b: '2' };
    const expired = ['a=null; expires=Thu, 01 Jan 1970 00:00:00 GMT', 'b=; Max-Age=0'];
    assert.deepEqual(mergeCookies(both, expired), {});
    const lasting = 'a=3; Max-Age=1209600; expires=Thu, 01 Jan 2099 00:00:00 GMT';
    assert.deepEqual(mergeCookies(both, [lasting]), { a: '3', b: '2' });
  });

  test('tell another session from one that was only signed again', () => {
    const [one, again, other] = [
      cookieOf({ session_id: 's1' }, 't1.sig1'),
      cookieOf({ session_id: 's1' }, 't2.sig2'),
      cookieOf({ session_id: 's2' }, 't1.sig1'),
    ];
    assert.equal(sessionIdIn(one), 's1');
    assert.equal(isOtherSession({ s: one }, { s: again }), false);
    assert.equal(isOtherSession({ s: one }, { s: other }), true);
    for (const opaque of ['opaque', '', cookieOf(null, 'x'), cookieOf({ session_id: 3 }, 'x')])
      assert.equal(isOtherSession({ s: opaque }, { s: other }), false, opaque);
  });
});

describe('the body of a call', () => {
  test('is the row, with the prompt as its input and without what names the session', () => {
    const metadata = {
      verifier_metadata: { answer: 4 },
      responses_create_params: { temperature: 0.5, input: 'replaced' },
      [SESSION_KEY]: session,
    };
    assert.deepEqual(plainOf(rowOf(metadata, [{ role: 'user', content: 'Go' }])), {
      verifier_metadata: { answer: 4 },
      responses_create_params: { temperature: 0.5, input: [{ role: 'user', content: 'Go' }] },
    });
    assert.deepEqual(plainOf(rowOf({}, [])), { responses_create_params: { input: [] } });
  });

  test('names a step the same in every attempt, another one in another life', () => {
    const id = requestIdOf(session, 'b/0-0/3');
    assert.match(id, /^[0-9a-f]{32}$/);
    assert.equal(requestIdOf({ ...session, steps: 9, cookies: { a: 'b' } }, 'b/0-0/3'), id);
    assert.notEqual(requestIdOf(session, 'b/0-0/4'), id);
    assert.notEqual(requestIdOf({ ...session, id: 'b/0-0/begin-1' }, 'b/0-0/3'), id);
  });

  test('has a response of the generated text, with what the row says of model and tools', () => {
    const tools = [{ type: 'function', name: 'look' }];
    const row = rowOf({ responses_create_params: { model: 'm', tools, tool_choice: 'none' } }, []);
    const response = responseOf('<hit>', { id: 'i', row });
    assert.deepEqual(
      [response['model'], plainOf(response['tools']), response['tool_choice']],
      ['m', tools, 'none'],
    );
    assert.deepEqual(response, responseOf('<hit>', { id: 'i', row }));
  });
});

describe('an observation', () => {
  const tool_outputs = [{ call_id: 'c', output: '{"rows": 2}' }, { output: [1] }];
  const cases = [
    [{ observation: 'Your move.' }, 'Your move.'],
    [{ observation: null, info: { tool_outputs } }, '{"rows": 2}\n[1]'],
    [{ observation: 'Next?', info: { tool_outputs } }, '{"rows": 2}\n[1]\nNext?'],
    [{ info: { tool_outputs: [{ output: null }] } }, 'null'],
    [{ info: { tool_outputs: null } }, ''],
  ] as const;
  for (const [answer, text] of cases) {
    test(`${JSON.stringify(answer)} is read as ${JSON.stringify(text)}`, () => {
      assert.equal(
        observationText(structuredClone(answer) as Parameters<typeof observationText>[0]),
        text,
      );
    });
  }
});

describe('an answer to a step', () => {
  const refused: [answer: object, problem: string][] = [
    [{ info: { tool_outputs: 'none' } }, 'info.tool_outputs: expected a list'],
    [
      { info: { tool_outputs: [{ output: '1' }, 'two'] } },
      'info.tool_outputs.1: expected an object with output',
    ],
    [
      { info: { tool_outputs: [{ call_id: 'c' }] } },
      'info.tool_outputs.0: expected an object with output',
    ],
    [{ done: true }, 'done: expected terminated or truncated to say it, too'],
    [{ done: false, terminated: true }, 'done: expected terminated or truncated to say it, too'],
    [{ reward: null }, 'reward: expected a finite number'],
  ];
  for (const [answer, problem] of refused)
    test(`${JSON.stringify(answer)} is refused by its field`, () => {
      const given = { observation: 'Next?', reward: 1, ...answer };
      const { error } = StepAnswer.safeParse(given);
      const [found] = problemsOf(error!, given);
      assert.ok(`${found?.where}: ${found?.what}`.startsWith(problem), JSON.stringify(found));
    });

  for (const answer of [
    { done: true, terminated: true },
    { done: true, truncated: true },
    { done: false },
  ])
    test(`${JSON.stringify(answer)} agrees with itself`, () => {
      assert.ok(StepAnswer.safeParse({ reward: 1, ...answer }).success);
    });

  const KEY_ERROR = `"KeyError('7b1f6f0e-6d0a-4b39-9c5e-3f3f6f4f1c2d')"`;
  const lost: [number, string][] = [
    [410, ''],
    [500, KEY_ERROR],
    [400, '{"detail":"Session not initialized. Call /reset first."}'],
    [400, '{"detail":"Missing session id."}'],
    [404, '{"detail":"Unknown session 12"}'],
    [500, '"no active episode"'],
    [404, 'The session 7b1f was not found'],
  ];
  for (const [status, text] of lost) {
    test(`${status} ${text} says that the session is lost`, () => {
      assert.equal(saysLost({ status, text }), true);
    });
  }
  const other: [number, string][] = [
    [500, `"KeyError('answer')"`],
    [400, `{"detail":"Unable to parse action from response: 'session not found'"}`],
    [503, KEY_ERROR],
    [502, 'session not found'],
    [422, '{"detail":[{"msg":"Field required","input":"unknown session"}]}'],
    [500, '"RuntimeError(\'session\')"'],
    [404, '{"detail":"Not Found"}'],
  ];
  for (const [status, text] of other) {
    test(`${status} ${text} does not say so`, () => {
      assert.equal(saysLost({ status, text }), false);
    });
  }
});

describe('a step that was not answered well', () => {
  const by = (cause: unknown, type: Fault['type']) => new Fault({ type, message: 'm', cause });
  const unavailable = (cause: unknown) => by(cause, 'EnvironmentUnavailable');
  const coded = (code: string) => unavailable(Object.assign(new Error(code), { code }));
  const status = (code: number) => unavailable({ status: code, text: '' });
  const typeOf = (fault: Fault, step_idempotency: boolean): string =>
    (stepFault(fault, { step_idempotency }) as Fault).type;

  for (const [name, fault] of Object.entries({
    'a broken connection': coded('ECONNRESET'),
    'nobody who listens': coded('ECONNREFUSED'),
    'no answer in time': unavailable(undefined),
    '502': status(502),
    '504': status(504),
  })) {
    test(`by ${name} is sent again only to a server that recognizes it`, () => {
      assert.equal(typeOf(fault, true), 'EnvironmentUnavailable');
      assert.equal(typeOf(fault, false), 'EnvironmentStateLost');
    });
  }
  for (const [name, fault] of Object.entries({
    '503': status(503),
    '429': status(429),
    'a host that was not found': coded('ENOTFOUND'),
    'a connection that was not made in time': coded('UND_ERR_CONNECT_TIMEOUT'),
  })) {
    test(`by ${name} was not played, and is sent again`, () => {
      assert.equal(typeOf(fault, false), 'EnvironmentUnavailable');
    });
  }
  test('by 500 has raised an exception if the server recognizes it', () => {
    const raised = by({ status: 500, text: '' }, 'EnvironmentFailed');
    assert.equal(typeOf(raised, true), 'EnvironmentFailed');
    assert.equal(typeOf(raised, false), 'EnvironmentStateLost');
  });
  test('because it is wrong stays a rejection', () => {
    assert.equal(
      typeOf(by({ status: 422, text: '' }, 'EnvironmentRejected'), false),
      'EnvironmentRejected',
    );
  });
  test('because the attempt was cancelled stays what it was', () => {
    const reason = new Error('cancelled');
    assert.equal(stepFault(reason, { step_idempotency: false }), reason);
  });
});
