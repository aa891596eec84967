# A job's whole life through beaneater.

require 'beaneater'

TUBE = 'clients-beaneater'.freeze

def check(holds, what)
  abort "not so: #{what}" unless holds
end

client = Beaneater.new("127.0.0.1:#{ENV.fetch('BEANSTALK_PORT')}")
tube = client.tubes[TUBE]
id = tube.put('hello', pri: 10, ttr: 30)[:id]
client.tubes.watch!(TUBE)

job = client.tubes.reserve(1)
check job.id == id, 'the reserved job is the one put'
check job.body == 'hello', 'its body is the one put'
job.touch
job.release(delay: 60)
check tube.peek(:delayed).id == id, 'the released job is delayed'
tube.kick(5)

job = client.tubes.reserve(0)
job.bury
check tube.peek(:buried).id == id, 'the job is buried'
tube.kick(1)

job = client.tubes.reserve(0)
check job.stats.state == 'reserved', 'the job is reserved'
check job.stats.kicks == 2, 'it was kicked twice'
tube.pause(0)
job.delete

begin
  client.tubes.reserve(0)
  abort 'not so: the tube is empty'
rescue Beaneater::TimedOutError
  # As it should be.
end

check tube.stats.name == TUBE, 'the statistics name the tube'
check client.stats.keys.size == 51, 'there are 51 statistics'
check client.tubes.all.map(&:name).include?('default'), 'the default tube exists'
client.close
