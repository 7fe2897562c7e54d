import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withoutSecrets } from '../../src/platform/secrets.js';
import type { Config } from '../../src/workers/config.js';
import { openStore } from '../../src/workers/open-store.js';

const SECRET = 'hunter2-of-this-test';

const opened = (url: string) => {
  const store: Config['store'] = {
    kind: 'postgres',
    url_env: 'DATABASE',
    url_file: null,
    schema: 's',
    max_connections: 1,
    outputs: { kind: 'file', root: '/nonexistent', readers: 'owner' },
    patience: '1s',
  };
  return openStore({ store }, { env: { DATABASE: url }, max_cached_bytes: 0, max_request_bytes: 0 }); // prettier-ignore
};

describe('the URL of a database', () => {
  for (const url of [
    `postgres://u:%zz${SECRET}@127.0.0.1:9/db`,
    `postgres://u:${SECRET}@127.0.0.1:port/db`,
    `u:${SECRET}@127.0.0.1/db`,
  ])
    test(`is refused by the setting that names it, and not quoted: ${url.replace(SECRET, '…')}`, () => {
      assert.throws(
        () => opened(url),
        ({ message }: Error) =>
          message.startsWith('store.url_env: DATABASE: expected a URL') &&
          !message.includes(SECRET),
      );
    });

  test('has its password kept, wherever it stands in it', async () => {
    const [user, parameter] = ['of-a-user-1234', 'of-a-parameter-1234'];
    const { close } = opened(`postgres://u:${user}@127.0.0.1:9/db?password=${parameter}`);
    await close();
    assert.equal(withoutSecrets(`${user} ${parameter}`), '[secret] [secret]');
  });
});
