// Uses node-zookeeper-client the way a program would, and prints a line of JSON for each thing that
// comes back: [what, outcome]. test_wire_node.py runs it.
//
//     node wire_node.js calls HOST:PORT/CHROOT      every call and every error
//     node wire_node.js watches HOST:PORT/CHROOT    watches, and what they tell after a reconnection,
//                                                   for which it waits for lines on its input
'use strict';

const readline = require('readline');
const zookeeper = require('node-zookeeper-client');

const {CreateMode, Exception, ACL, Id, Permission} = zookeeper;

function print(what, outcome) {
    console.log(JSON.stringify([what, outcome === undefined ? null : outcome]));
}

// A stat without what cannot be the same twice.
function plainStat(stat) {
    const long = (buffer) => buffer.toString('hex');
    const none = '0000000000000000';

    return {
        version: stat.version, cversion: stat.cversion, aversion: stat.aversion,
        dataLength: stat.dataLength, numChildren: stat.numChildren,
        ephemeral: long(stat.ephemeralOwner) !== none,
        untouched: long(stat.czxid) === long(stat.mzxid),
    };
}

// Makes a call; prints its error or its results.
function call(client, name, ...args) {
    return new Promise((resolve) => {
        client[name](...args, (error, ...results) => {
            const plain = results.map((result) => {
                if (Buffer.isBuffer(result)) {
                    return result.toString();
                }
                if (result && result.czxid) {
                    return plainStat(result);
                }
                return Array.isArray(result) ? result.map(String).sort() : result;
            });
            print([name, ...args.filter((arg) => typeof arg !== 'function')].map(String),
                error ? {error: error.name} : plain);
            resolve(results);
        });
    });
}

function connect(server, options) {
    const client = zookeeper.createClient(server, options);

    return new Promise((resolve) => {
        client.once('connected', () => resolve(client));
        client.connect();
    });
}

// A transaction out of [method, ...arguments]; prints what became of each operation.
function commit(client, ...operations) {
    const transaction = client.transaction();

    for (const [method, ...args] of operations) {
        transaction[method](...args);
    }
    return new Promise((resolve) => {
        transaction.commit((error, results) => {
            print(operations.map(String), {
                error: error ? error.name : null,
                results: results.map((r) => ({
                    type: r.type, err: r.err, path: r.path, stat: r.stat && plainStat(r.stat),
                })),
            });
            resolve();
        });
    });
}

async function calls(server) {
    const client = await connect(server), data = Buffer.from('data');
    const other = await connect(server);
    const mine = [new ACL(Permission.ALL, new Id('auth', ''))];

    print('session', [client.getSessionId().length, client.getSessionPassword().length,
        client.getSessionTimeout(), client.getState().name]);
    await call(client, 'create', '/a', data);
    await call(client, 'create', '/a', data);
    await call(client, 'create', '/none/x', data);
    await call(client, 'create', '/a/s-', data, CreateMode.PERSISTENT_SEQUENTIAL);
    await call(client, 'create', '/a/e', data, CreateMode.EPHEMERAL);
    await call(client, 'create', '/a/es-', data, CreateMode.EPHEMERAL_SEQUENTIAL);
    await call(client, 'create', '/a/e/x', data);
    await call(client, 'mkdirp', '/deep/er/still', data);
    await call(client, 'exists', '/a');
    await call(client, 'exists', '/none');
    await call(client, 'getData', '/a');
    await call(client, 'getData', '/none');
    await call(client, 'setData', '/a', Buffer.from('more'), 0);
    await call(client, 'setData', '/a', Buffer.from('late'), 0);
    await call(client, 'getData', '/a');
    await call(client, 'getChildren', '/a');
    await call(client, 'getChildren', '/none');
    await call(client, 'listSubTreeBFS', '/deep');
    await call(client, 'remove', '/a');
    await call(client, 'remove', '/a/s-0000000000', 7);
    await call(client, 'remove', '/a/s-0000000000', 0);
    await call(client, 'removeRecursive', '/deep');
    await call(client, 'getACL', '/a');
    await call(client, 'create', '/secret', data, mine, CreateMode.PERSISTENT);
    client.addAuthInfo('digest', Buffer.from('me:secret'));
    await call(client, 'create', '/secret', data, mine, CreateMode.PERSISTENT);
    await call(client, 'getACL', '/secret');
    await call(other, 'getData', '/secret');
    await call(other, 'getACL', '/secret');
    await call(other, 'setData', '/secret', data);
    await call(other, 'create', '/secret/x', data);
    await call(client, 'setACL', '/secret', ACL.READ_ACL_UNSAFE, 7);
    await call(client, 'setACL', '/secret', ACL.READ_ACL_UNSAFE, 0);
    await call(other, 'getData', '/secret');
    await call(other, 'setData', '/secret', data);
    await commit(client, ['create', '/t', data], ['check', '/t', 0], ['setData', '/t', data, 0],
        ['create', '/t/s-', data, CreateMode.PERSISTENT_SEQUENTIAL], ['remove', '/t/s-0000000000', 0]);
    await commit(client, ['create', '/u', data], ['check', '/t', 7], ['remove', '/t', -1]);
    await call(client, 'getChildren', '/');

    // A thousand calls at once, answered in their order.
    const order = [];

    await Promise.all(Array.from({length: 1000}, (_, i) => new Promise((resolve) => {
        client[i % 2 ? 'getData' : 'exists']('/t', (error) => {
            order.push(error ? error.name : i);
            resolve();
        });
    })));
    print('in order', order.every((value, i) => value === i));

    client.close();
    await new Promise((resolve) => client.once('disconnected', resolve));
    await call(other, 'getChildren', '/a');
    other.close();
}

async function watches(server) {
    const client = await connect(server, {sessionTimeout: 20000, retries: 100, spinDelay: 100});
    const lines = readline.createInterface({input: process.stdin})[Symbol.asyncIterator]();
    const tell = (event) => print('event', [event.getName(), event.getPath()]);
    const nothing = () => undefined;
    const session = client.getSessionId().toString('hex');

    client.on('state', (state) => print('state', state.name));
    client.getData('/data', tell, nothing);
    client.getData('/gone', tell, nothing);
    client.getChildren('/children', tell, nothing);
    client.exists('/new', tell, nothing);
    client.getData('/same', tell, nothing);
    await call(client, 'create', '/mine', Buffer.from(''), CreateMode.EPHEMERAL);
    print('ready');
    await lines.next(); // until everything was told
    print('same session', session === client.getSessionId().toString('hex'));
    await call(client, 'exists', '/mine');
    client.close();
    process.stdin.destroy();
}

({calls, watches})[process.argv[2]](process.argv[3]).catch((error) => {
    console.error(error);
    process.exit(1);
});
