'use strict';
// Makes the folders that npm publishes: OUT/windrow, and one for each platform, which windrow depends on optionally.
//
//     node scripts/pack.js --addons FOLDER --notices FILE --out FOLDER
//
// The folder of addons has PLATFORM/windrow.node for each platform of lib/targets.js. The notices are those of the linked crates.

const { copyFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { parseArgs } = require('node:util');

const { SCOPE, TARGETS } = require('../lib/targets.js');

const root = path.join(__dirname, '..');
const { values } = parseArgs({ options: { addons: { type: 'string' }, notices: { type: 'string' }, out: { type: 'string' } } });
const { addons, notices, out } = values;
if (addons === undefined || notices === undefined || out === undefined) {
  throw new Error('--addons, --notices and --out are needed');
}

// `scripts` would run at each installation, and the other two are for a clone.
const { scripts: _, devDependencies: __, files, ...facts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const licences = ['LICENSE-APACHE', 'LICENSE-MIT'];
const shipped = [...licences, 'THIRD-PARTY.txt'];

/**
 * Writes a package with the licences.
 * @param {string} name
 * @param {object} manifest
 */
function write(name, manifest) {
  const folder = path.join(/** @type {string} */ (out), name);
  mkdirSync(folder, { recursive: true });
  for (const licence of licences) {
    copyFileSync(path.join(root, '../..', licence), path.join(folder, licence));
  }
  copyFileSync(/** @type {string} */ (notices), path.join(folder, 'THIRD-PARTY.txt'));
  writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  return folder;
}

for (const target of TARGETS) {
  const { version, license, repository, engines } = facts;
  const [os, cpu, libc = 'glibc'] = target.split('-');
  const folder = write(target, {
    name: `${SCOPE}/${target}`,
    version,
    description: `The addon of windrow for ${target}`,
    license,
    repository,
    engines,
    os: [os],
    cpu: [cpu],
    ...(os === 'linux' && { libc: [libc] }),
    main: 'windrow.node',
    files: ['windrow.node', ...shipped],
    publishConfig: { access: 'public' },
  });
  copyFileSync(path.join(addons, target, 'windrow.node'), path.join(folder, 'windrow.node'));
  writeFileSync(path.join(folder, 'README.md'), `The addon of [windrow](https://www.npmjs.com/package/windrow) for ${target}.\n`);
}

// The same version: the addon has no interface of its own.
const optionalDependencies = Object.fromEntries(TARGETS.map((target) => [`${SCOPE}/${target}`, facts.version]));
const folder = write('windrow', { ...facts, files: [...files, ...shipped], optionalDependencies });
for (const each of ['README.md', ...files]) {
  cpSync(path.join(root, each), path.join(folder, each), { recursive: true });
}
