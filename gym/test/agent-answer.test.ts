import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, test, type TestContext } from 'node:test';
import { aggregate, AgentMetricsMissing, type AggregateOptions } from '../metrics/aggregate.js';
import { strippedLine, type AnswerLimits } from '../metrics/agent-answer.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void> | void;

/** An agent server on loopback that has what `handle` does with `/aggregate_metrics`. */
async function agentServer(t: TestContext, handle: Handler): Promise<string> {
  const server = createServer((request, response) => {
    assert.equal(request.url, '/aggregate_metrics');
    Promise.resolve(handle(request, response)).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const ROWS = [
  '{"_ng_task_index":1,"_ng_rollout_index":0,"reward":1.0,"agent_ref":{"name":"ag"},"response":{"id":"r","usage":{"total_tokens":3,"details":{"x":1}}},"responses_create_params":{},"ng_trajectory":{},"note":"ä"}',
  '{"_ng_task_index":0,"_ng_rollout_index":0,"reward":9007199254740993,"agent_ref":{"name":"ag"},"response":{"id":"r"}}',
];

/** Aggregates rows, their agents being at `url`. */
async function aggregated(
  t: TestContext,
  {
    url,
    rows = ROWS,
    ...options
  }: {
    url: string | null;
    rows?: string[];
    urlOf?: AggregateOptions['urlOf'];
    limits?: AnswerLimits;
    signal?: AbortSignal;
  },
) {
  const directory = await makeTemporaryDirectory('agent-answer');
  t.after(directory.remove);
  const input = `${directory.path}/rows.jsonl`;
  await writeFile(input, rows.map((row) => `${row}\n`).join(''));
  const said: string[] = [];
  const file = await aggregate({
    inputs: [input],
    output: `${directory.path}/out.jsonl`,
    urlOf: () => Promise.resolve(url),
    signal: new AbortController().signal,
    report: (line) => said.push(line),
    ...options,
  });
  return { text: await readFile(file ?? '', 'utf8'), said };
}

const reply =
  (status: number, body: string): Handler =>
  async (request, response) => {
    await text(request);
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  };

describe('the agent server’s own metrics', () => {
  test('it is sent the results in order, without what is heavy, and its answer is taken as it is', async (t) => {
    const sent: string[] = [];
    const answer =
      '{"agent_metrics":{"arena/score":61.0,"big":9007199254740993},"key_metrics":{"arena/score":61.0},"group_level_metrics":[{"_ng_task_index":0,"own":[]}]}';
    const url = await agentServer(t, async (request, response) => {
      sent.push(await text(request));
      response.end(answer);
    });
    const { text: written, said } = await aggregated(t, { url });
    assert.deepEqual(sent, [
      '{"verify_responses":[{"_ng_task_index":0,"_ng_rollout_index":0,"reward":9007199254740993,"agent_ref":{"name":"ag"}},' +
        '{"_ng_task_index":1,"_ng_rollout_index":0,"reward":1.0,"agent_ref":{"name":"ag"},"note":"ä","response":{"usage":{"total_tokens":3,"details":{"x":1}}}}]}',
    ]);
    assert.equal(
      written,
      `[
  {
    "agent_ref": {
      "name": "ag"
    },
    "agent_metrics": {
      "arena/score": 61.0,
      "big": 9007199254740993
    },
    "key_metrics": {
      "arena/score": 61.0
    },
    "group_level_metrics": [
      {
        "_ng_task_index": 0,
        "own": []
      }
    ]
  }
]`,
    );
    assert.deepEqual(said, ['\nKey metrics for ag:\n{\n    "arena/score": 61.0\n}']);
  });

  const without: [string, Handler, RegExp][] = [
    ['has no such path', reply(404, '{}'), /it answered 404/],
    ['takes no POST there', reply(405, '{}'), /it answered 405/],
    ['has not implemented it', reply(501, ''), /it answered 501/],
  ];
  for (const [what, handler, why] of without) {
    test(`a server that ${what} is reported once, and the metrics are computed here`, async (t) => {
      const url = await agentServer(t, handler);
      const { text: written, said } = await aggregated(t, { url });
      const own = await aggregated(t, { url: null });
      assert.equal(written, own.text);
      assert.equal(said.length, 2);
      assert.match(said[0] ?? '', /^the metrics of ag are computed here: its server does not \(/);
      assert.match(said[0] ?? '', why);
    });
  }

  const failing: [string, Handler, RegExp][] = [
    ['fails', reply(500, 'Traceback: no arena'), /it answered 500: Traceback: no arena/],
    ['is too busy', reply(503, ''), /it answered 503/],
    [
      'does not know its own results',
      reply(422, '{"detail":"reward"}'),
      /it answered 422: .*reward/,
    ],
    ['answers no JSON', reply(200, 'NaN'), /its answer is no JSON/],
    ['answers another shape', reply(200, '{"status":"ok"}'), /expected \{agent_metrics, .*status/],
    ['answers a list of metrics', reply(200, '{"agent_metrics":[]}'), /has \[\] as agent_metrics/],
    [
      'hangs up',
      (request) => {
        request.socket.destroy();
      },
      /other side closed|ECONNRESET|EPIPE/,
    ],
    [
      'answers too much',
      reply(200, `{"agent_metrics":{"x":"${'x'.repeat(3000)}"}}`),
      /answered with more than 2000 bytes/,
    ],
    ['hangs', () => undefined, /no answer within 300 ms/],
  ];
  for (const [what, handler, why] of failing) {
    test(`a server that ${what} has no entry, and no other metrics stand in its place`, async (t) => {
      const url = await agentServer(t, handler);
      const limits = { max_bytes: 2000, timeout_ms: what === 'hangs' ? 300 : 20_000 };
      await assert.rejects(aggregated(t, { url, limits }), (error: AgentMetricsMissing) => {
        assert.ok(error instanceof AgentMetricsMissing);
        assert.match(
          error.message,
          /^ag has no entry in the metrics: POST http:.*\/aggregate_metrics: /,
        );
        assert.match(error.message, why);
        assert.equal(readFileSync(error.file, 'utf8'), '[]');
        return true;
      });
    });
  }

  test('an agent whose server fails takes no other agent’s entry with it', async (t) => {
    const url = await agentServer(t, reply(500, 'boom'));
    const rows = [...ROWS, ROWS.join('').slice(0, ROWS[0]?.length).replace('"ag"', '"other"')];
    const urlOf = (agent: string) => Promise.resolve(agent === 'ag' ? url : null);
    await assert.rejects(aggregated(t, { url, urlOf, rows }), ({ file }: AgentMetricsMissing) => {
      const entries = JSON.parse(readFileSync(file, 'utf8')) as { agent_ref: object }[];
      assert.deepEqual(
        entries.map(({ agent_ref }) => agent_ref),
        [{ name: 'other' }],
      );
      return true;
    });
  });

  test('a server that is not there is reported, and the metrics are computed here', async (t) => {
    const { text: written, said } = await aggregated(t, { url: 'http://127.0.0.1:1' });
    assert.match(said[0] ?? '', /computed here: .*ECONNREFUSED/);
    assert.match(written, /"mean\/reward"/);
  });

  test('an interrupt gets no metrics computed here', async (t) => {
    const stop = new AbortController();
    const url = await agentServer(t, () => {
      stop.abort(new Error('interrupted'));
    });
    await assert.rejects(aggregated(t, { url, signal: stop.signal }), /interrupted/);
  });

  test('a usage that is empty is not sent, nor what is no usage', () => {
    for (const response of ['{"usage":{}}', '{"usage":null}', 'null', '{}']) {
      assert.equal(strippedLine(`{"reward":1,"response":${response}}`), '{"reward":1}');
    }
  });
});
