import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';
import { COMMANDS } from '../../src/cli/commands.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { Config } from '../../src/workers/config.js';

const read = (name: string): Promise<string> => readFile(path.join(PROJECT_ROOT, name), 'utf8');

interface Container {
  args: string[];
  volumeMounts: { name: string; mountPath: string }[];
}
interface Deployment {
  spec: {
    selector: { matchLabels: object };
    template: {
      metadata: { labels: object };
      spec: {
        initContainers: Container[];
        containers: Container[];
        volumes: { name: string; configMap: { name: string } }[];
      };
    };
  };
}
interface ConfigMap {
  metadata: { name: string };
  data: Record<string, string>;
}

const example = async (): Promise<[ConfigMap, Deployment]> => {
  const documents = parseAllDocuments(await read('examples/kubernetes/worker.yaml'));
  return documents.map((one) => one.toJS() as unknown) as [ConfigMap, Deployment];
};

test('the temporal.yaml of examples/kubernetes is one that needs no disk', async () => {
  const [map] = await example();
  const { store, inputs_dir } = Config.parse(parse(map.data['temporal.yaml'] ?? ''));
  assert.equal(store.kind === 'postgres' && store.outputs.kind, 's3');
  assert.match(inputs_dir, /^s3:/);
});

test('its pods migrate the store, then work, each by a command that there is, with the file that is mounted', async () => {
  const [map, { spec }] = await example();
  const { initContainers, containers, volumes } = spec.template.spec;
  assert.deepEqual(spec.selector.matchLabels, spec.template.metadata.labels);
  assert.deepEqual(
    volumes.map(({ configMap }) => configMap.name),
    [map.metadata.name],
  );
  const all = [...initContainers, ...containers];
  assert.deepEqual(
    all.map(({ args }) => args.slice(0, -2).join(' ')),
    ['store migrate', 'worker'],
  );
  for (const { args, volumeMounts } of all) {
    assert.ok(args[0] !== undefined && args[0] in COMMANDS, args[0]);
    const [mount] = volumeMounts;
    assert.equal(mount?.name, volumes[0]?.name);
    assert.deepEqual(args.slice(-2), [
      '--config',
      `${mount?.mountPath ?? ''}/${Object.keys(map.data)[0] ?? ''}`,
    ]);
  }
});

test('its image takes from the package what the package has', async () => {
  const dockerfile = await read('examples/kubernetes/Dockerfile');
  const { name, files } = JSON.parse(await read('package.json')) as {
    name: string;
    files: string[];
  };
  const [, file = ''] = new RegExp(`/${name}/([\\w/.-]+)"`).exec(dockerfile) ?? [];
  assert.ok(files.includes(path.dirname(file)), file);
  await read(file);
  assert.ok(dockerfile.includes(`COPY dist-packages/${name}-*.tgz`));
});
